"""Table 2 beside the paper's."""

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
    failed_note,
    mean_and_error,
    mean_sd,
    seconds_of,
    values_of,
)
from covshift.experiments.rows import Row
from covshift.experiments.stats import LEVEL, best_and_ties, paired_p
from covshift.experiments.tables import Cell, Table

__all__ = ["benchmark_figures", "benchmark_tables", "scale_of"]

REFERENCES = ("ERM", "ERM (median)")
SHOWN = ("ERM (median)", "EIWERM (median)", "RIWERM (median)", "one-step (median)", "default")


def benchmark_tables(rows: Sequence[Row], about: Mapping[str, Any]) -> list[Table]:
    methods = list(about["settings"]["methods"])
    grouped = by_problem(rows)
    problems = [name for name in about["settings"]["problems"] if name in grouped]
    values = {name: values_of(grouped[name], methods) for name in problems}
    metric = {name: grouped[name][0].metric for name in problems}
    paper = load_yaml(HERE / "grids" / "paper.yaml")["benchmark"]
    of_paper = [m for m in methods if m in paper["columns"]]
    others = [m for m in methods if m not in of_paper]
    first = [*of_paper, *[m for m in others if m == "default"]]
    controls = [*[m for m in others if m == "default"], *[m for m in others if m != "default"]]
    tables = []
    if first:
        tables.append(
            _errors("benchmark/main", "Benchmark: the paper's methods and the default", values, metric, first)
        )
    if len(controls) > 1:
        tables.append(
            _errors("benchmark/controls", "Benchmark: the default and its controls", values, metric, controls)
        )
    tables.append(_of_the_paper(paper, [name for name in problems if name in paper]))
    if "default" in methods:
        tables.append(_score_card(values))
    tables.append(_times({name: seconds_of(grouped[name], methods) for name in problems}, methods))
    return tables


def benchmark_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Errors over the mean of ERM with the median heuristic, data set by data set."""
    methods = list(dict.fromkeys(row.method for row in rows))
    grouped = by_problem(rows)
    reference = next((m for m in reversed(REFERENCES) if m in methods), methods[0])
    series = {}
    for method in [m for m in SHOWN if m in methods] or methods:
        means, errors = [], []
        for group in grouped.values():
            values = values_of(group, methods)
            (mean,), (error,) = mean_and_error([values[method]], 1.0 / float(np.nanmean(values[reference])))
            means.append(mean)
            errors.append(error)
        series[method] = means, errors
    label = f"mean error over that of {reference}, with standard error"
    return [draw_dots(folder / "errors.png", list(grouped), series, label, line=1.0)]


def scale_of(values: Values, metric: str) -> float:
    """What a problem's values are multiplied by: 1 / mean of ERM for regression, 100 (percent) for error rates."""
    if metric == "error_rate":
        return 100.0
    reference = next((name for name in REFERENCES if name in values), next(iter(values)))
    return 1.0 / float(np.nanmean(values[reference]))


def _errors(
    name: str, title: str, values: Mapping[str, Values], metric: Mapping[str, str], methods: Sequence[str]
) -> Table:
    lines: list[list[Cell | str]] = []
    for problem, every in values.items():
        shown = {method: every[method] for method in methods}
        best, scale = best_and_ties(shown), scale_of(every, metric[problem])
        trials = len(next(iter(shown.values())))
        cells = [Cell(mean_sd(v, 2, scale), method in best) for method, v in shown.items()]
        lines.append([f"{problem} [{trials}]", *cells])
    failed = {f"{m} on {problem}": v[m] for problem, v in values.items() for m in methods}
    return Table(
        name,
        f"{title}: mean (SD), [number of trials]",
        ["data set", *methods],
        lines,
        [
            "Regression: squared error over the mean of ERM (full search); classification: error rate in percent.",
            f"Bold: lowest mean of the row, and those not significantly worse (paired t-test, {LEVEL:.0%}).",
            *failed_note(failed),
        ],
    )


def _of_the_paper(paper: Mapping[str, Any], problems: Sequence[str]) -> Table:
    lines = [[name, *[f"{mean:.2f} ({sd:.2f})" for mean, sd in paper[name]]] for name in problems]
    return Table("benchmark/paper", "Benchmark: what the paper prints", ["data set", *paper["columns"]], lines)


def _score_card(values: Mapping[str, Values]) -> Table:
    methods = [m for m in next(iter(values.values())) if m != "default"]
    lines = []
    for method in methods:
        counts = {"better": 0, "tie": 0, "worse": 0}
        ratios = []
        for every in values.values():
            mine, theirs = every["default"], every[method]
            ratios.append(np.nanmean(mine) / np.nanmean(theirs))
            better = np.nanmean(mine) < np.nanmean(theirs)
            counts["tie" if paired_p(mine, theirs) >= LEVEL else "better" if better else "worse"] += 1
        mean = float(np.exp(np.mean(np.log(ratios))))
        lines.append([method, *[str(counts[key]) for key in ("better", "tie", "worse")], f"{mean:.3f}"])
    return Table(
        "benchmark/score",
        f"Benchmark: the default against each method on {len(values)} data sets",
        ["against", "better", "tie", "worse", "geometric mean of error ratios"],
        lines,
        [f"Better, worse: paired t-test on the same draws, {LEVEL:.0%}, not corrected for the number of data sets."],
    )


def _times(seconds: Mapping[str, Values], methods: Sequence[str]) -> Table:
    lines = [[method, *[f"{np.mean(s[method]):.3g}" for s in seconds.values()]] for method in methods]
    return Table("benchmark/seconds", "Benchmark: mean seconds a fit, one core", ["method", *seconds], lines)
