"""Table 1 beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from covshift.experiments.figures import draw_dots
from covshift.experiments.grid import HERE, load_yaml
from covshift.experiments.reports.values import (
    Values,
    failed_note,
    mean_and_error,
    mean_sd,
    seconds_of,
    standard_error,
    values_of,
)
from covshift.experiments.rows import Row
from covshift.experiments.stats import LEVEL, best_and_ties, paired_p
from covshift.experiments.tables import Cell, Table

__all__ = ["block_of", "toy_figures", "toy_tables"]


def toy_tables(rows: Sequence[Row], about: Mapping[str, Any]) -> list[Table]:
    methods = list(about["settings"]["methods"])
    values, seconds = values_of(rows, methods), seconds_of(rows, methods)
    paper = load_yaml(HERE / "grids" / "paper.yaml")["toy"]
    trials = len(next(iter(values.values())))
    tables = [_main(values, seconds, paper, trials)]
    choices = _choices(values, paper)
    if choices.rows:
        tables.append(choices)
    if "default" in values and len(values) > 1:
        tables.append(_against_default(values))
    return tables


def toy_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Mean errors beside the paper's."""
    paper = load_yaml(HERE / "grids" / "paper.yaml")["toy"]
    methods = list(dict.fromkeys(row.method for row in rows))
    shown = [m for m in [*paper, *sorted(set(methods) - set(paper))] if m in methods]
    values = values_of(rows, shown)
    ours = mean_and_error(values[m] for m in shown)
    theirs = [paper.get(m, (np.nan,))[0] for m in shown], [paper.get(m, (0, np.nan))[1] / 10 for m in shown]
    series = {"here (mean, s.e.)": ours, "the paper (mean, s.e.)": theirs}
    return [draw_dots(folder / "errors.png", shown, series, "mean squared error on the target", log=True, line=0.01)]


def block_of(method: str) -> tuple[str, bool] | None:
    """(loss, median heuristic or not) of a row of the paper's table; None for other methods.

    >>> block_of("one-step (Tukey, median)"), block_of("default")
    (('Tukey', True), None)
    """
    if not method.endswith(")") or method.startswith(("control:", "variant:")):
        return None
    words = method[method.index("(") + 1 : -1].split(", ")
    return words[0], "median" in words


def _main(values: Values, seconds: Values, paper: Mapping[str, list[float]], trials: int) -> Table:
    # The paper's bold is over its own rows; ours compete with them.
    competing = {m: v for m, v in values.items() if m in paper or m == "default"}
    best = best_and_ties(competing)
    blocks: dict[tuple[str, bool], Values] = {}
    for method in paper:
        block = block_of(method)
        if method in values and block is not None:
            blocks.setdefault(block, {})[method] = values[method]
    best_in_block = set().union(*(best_and_ties(block) for block in blocks.values())) if blocks else set()
    lines: list[list[Cell | str]] = []
    for method, v in values.items():
        theirs = paper.get(method)
        lines.append(
            [
                method,
                Cell(mean_sd(v, 4), method in best),
                f"{standard_error(v):.4f}",
                "yes" if method in best_in_block else "",
                f"{np.mean(seconds[method]):.3g}",
                f"{theirs[0]:.4f} ({theirs[1]:.4f})" if theirs else "",
                f"{theirs[2]:.2f}" if theirs else "",
            ]
        )
    return Table(
        "toy/main",
        f"Toy regression: mean squared error on the target, {trials} trials",
        ["method", "MSE (SD)", "s.e.", "best of its block", "seconds", "paper: MSE (SD)", "paper: s"],
        lines,
        [
            f"Bold: lowest mean, and those not significantly worse (paired t-test, {LEVEL:.0%}), among the paper's "
            "rows and the default.",
            "Best of its block: the same within (loss, median or not) of the paper's rows. Noise alone gives 0.0100.",
            "Seconds: hyperparameter search and fit, one core; no method reuses what another computed.",
            *failed_note(values),
        ],
    )


# Choices that the paper does not state, and the rows in which each is made otherwise ({} is the method).
CHOICES = {
    "as in the table above": "{} (squared, median)",
    "regularisations from 1e-4 instead of 1e-3": "{} (squared, median, regs from 1e-4)",
    "median distance of source rows alone": "variant: {} (squared, median), median of the source",
    "median distance of target rows alone": "variant: {} (squared, median), median of the target",
    "centres from both samples": "variant: {} (squared, median), centres from both",
    "no loss term in g": "variant: {} (squared, median), without the loss term",
    "full search (one-step: g from uLSIF), bandwidths from 0.1": "{} (squared{})",
    "full search, bandwidths from 0.2": "variant: {} (squared{}), bandwidths from 0.2",
}


def _choices(values: Values, paper: Mapping[str, list[float]]) -> Table:
    methods = ("ERM", "EIWERM", "one-step")
    lines = []
    for choice, pattern in CHOICES.items():
        names = [pattern.format(m, ", uLSIF" if m == "one-step" else "") for m in methods]
        if any(name in values for name in names):
            shown = [mean_sd(values[name], 4) if name in values else "" for name in names]
            lines.append([choice, *shown])
    if lines:
        named = [f"{m} (squared, median)" for m in methods]
        lines.append(["the paper, median", *[f"{paper[name][0]:.4f} ({paper[name][1]:.4f})" for name in named]])
    return Table(
        "toy/choices",
        "Toy regression: which unstated choice moves the literal methods, MSE (SD)",
        ["choice", *methods],
        lines,
    )


def _against_default(values: Values) -> Table:
    mine = values["default"]
    lines = []
    for method, v in values.items():
        if method == "default":
            continue
        p = paired_p(v, mine)
        verdict = "tie" if p >= LEVEL else "default better" if np.nanmean(mine) < np.nanmean(v) else "default worse"
        lines.append([method, f"{np.nanmean(v) / np.nanmean(mine):.3f}", f"{p:.2g}", verdict])
    return Table(
        "toy/against-default",
        "Toy regression: every method against the default on the same draws",
        ["method", "mean error / default's", "p (paired t)", "verdict"],
        lines,
    )
