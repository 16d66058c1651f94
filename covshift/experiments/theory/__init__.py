"""The simulations behind docs/theory.md: rows, tables and figures."""

from covshift.experiments.theory._figures import theory_figures
from covshift.experiments.theory._report import theory_tables
from covshift.experiments.theory._run import TRIALS, run_theory

__all__ = ["TRIALS", "run_theory", "theory_figures", "theory_tables"]
