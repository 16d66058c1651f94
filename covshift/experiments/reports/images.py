"""Table 3 beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from covshift.experiments.figures import draw_dots
from covshift.experiments.grid import HERE, load_yaml
from covshift.experiments.reports.values import (
    Values,
    by_problem,
    mean_and_error,
    mean_sd,
    standard_error,
)
from covshift.experiments.rows import Row
from covshift.experiments.stats import LEVEL, best_and_ties, paired_p
from covshift.experiments.tables import Cell, Table

__all__ = ["images_figures", "images_tables"]

PAPER = ("ERM", "EIWERM", "RIWERM", "one-step")
KNOWS_THE_ANGLE = "control: true importance"  # how the names begin of controls that no method can compete with


def images_tables(rows: Sequence[Row], about: Mapping[str, Any]) -> list[Table]:
    paper = load_yaml(HERE / "grids" / "paper.yaml")["images"]
    methods, values = _values(rows)
    scale = about["settings"].get("scale", 1.0)
    part = "" if scale == 1.0 else f", {scale:g} of the images: not the paper's figures"
    columns = {problem: _column(shown) for problem, shown in values.items()}
    note = (
        f"Bold: highest mean of the column, and those not significantly worse (paired t-test, {LEVEL:.0%}), "
        "among methods with all the column's trials that do not know the angle."
    )
    title = f"Images: accuracy on the target in percent, mean (SD), [number of trials]{part}"
    header = ["method", *[f"{problem} [{_trials(shown)}]" for problem, shown in values.items()]]
    lines: list[list[Cell | str]] = [[m, *[column[m] for column in columns.values()]] for m in methods]
    known = [problem for problem in values if problem in paper]
    theirs = [
        [m, *["{:.2f} ({:.2f})".format(*paper[problem][k]) for problem in known]]
        for k, m in enumerate(paper["columns"])
    ]
    return [
        Table("images/main", title, header, lines, [note]),
        *_lead(methods, values),
        Table("images/paper", "Images: what the paper prints", ["method", *known], theirs),
    ]


def _trials(shown: Values) -> int:
    return max(int(np.isfinite(v).sum()) for v in shown.values())


def _column(shown: Values) -> dict[str, Cell]:
    """One problem's cells. A control cut short at two trials would make everything a tie: it cannot be best."""
    trials = _trials(shown)
    rivals = [m for m in shown if not m.startswith(KNOWS_THE_ANGLE) and np.isfinite(shown[m]).sum() == trials]
    # Accuracy is better where it is larger; the test looks for the smallest. One trial tells no method from another.
    best = best_and_ties({m: -shown[m] for m in rivals}) if trials > 1 else set()
    return {m: Cell(_cell(v, trials), m in best) for m, v in shown.items()}


def _lead(methods: Sequence[str], values: Mapping[str, Values]) -> list[Table]:
    """One-step less every other method, trial by trial."""
    others = [m for m in methods if m != "one-step"]
    if "one-step" not in methods or not others:
        return []
    lines = [[m, *[_difference(shown["one-step"], shown[m]) for shown in values.values()]] for m in others]
    notes = [f"Bold: significantly different from zero (paired t-test, {LEVEL:.0%}) over the trials that both have."]
    title = "Images: one-step less the other method, in points of accuracy, mean (standard error)"
    return [Table("images/lead", title, ["method", *values], lines, notes)]


def _difference(a: np.ndarray, b: np.ndarray) -> Cell | str:
    d = a - b
    if np.isfinite(d).sum() < 2:
        return "-"
    return Cell(f"{np.nanmean(d):+.2f} ({standard_error(d):.2f})", paired_p(a, b) < LEVEL)


def images_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Accuracies level by level, of the paper's methods and of the control that the claim rests on."""
    methods, values = _values(rows)
    shown = [m for m in methods if m in (*PAPER, "control: without the loss term")] or methods
    series = {m: mean_and_error([v[m] for v in values.values()]) for m in shown}
    return [draw_dots(folder / "accuracy.png", list(values), series, "accuracy on the target in percent")]


def _cell(v: np.ndarray, trials: int) -> str:
    """Rows are in percent; a method with fewer trials than the others of its line says how many."""
    n = int(np.isfinite(v).sum())
    return mean_sd(v, 2) + (f" [{n}]" if 0 < n < trials else "")


def _values(rows: Sequence[Row]) -> tuple[list[str], dict[str, Values]]:
    """Methods, and problem -> method -> accuracies in percent by seed; NaN where a run is not there yet."""
    rows = [row for row in rows if row.metric == "accuracy"]
    methods = sorted({row.method for row in rows}, key=_order)
    values = {}
    for problem, group in by_problem(rows).items():
        cells = {(row.method, row.seed): row.value for row in group}
        seeds = sorted({row.seed for row in group})
        values[problem] = {m: np.array([cells.get((m, seed), np.nan) for seed in seeds]) for m in methods}
    return methods, values


def _order(method: str) -> tuple[int, str]:
    """The paper's methods in its order, then ours, controls last."""
    place = PAPER.index(method) if method in PAPER else len(PAPER) + method.startswith("control:")
    return place, method
