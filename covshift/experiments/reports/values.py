"""Rows as arrays: methods x seeds of one problem, in the order of the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from covshift.experiments.rows import Row

__all__ = [
    "by_problem",
    "failed_note",
    "mean_and_error",
    "mean_sd",
    "seconds_of",
    "standard_error",
    "values_of",
]

Values = dict[str, np.ndarray]


def by_problem(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows of each problem, problems in the order of their first row."""
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row.problem, []).append(row)
    return out


def values_of(rows: Sequence[Row], methods: Sequence[str]) -> Values:
    """method -> values by seed, for rows of one problem; every method has the same seeds."""
    return _arrays(rows, methods, "value")


def seconds_of(rows: Sequence[Row], methods: Sequence[str]) -> Values:
    """method -> seconds by seed."""
    return _arrays(rows, methods, "seconds")


def _arrays(rows: Sequence[Row], methods: Sequence[str], name: str) -> Values:
    cells = {(row.method, row.seed): getattr(row, name) for row in rows}
    seeds = sorted({row.seed for row in rows})
    return {method: np.array([cells[method, seed] for seed in seeds]) for method in methods}


def mean_sd(values: np.ndarray, digits: int, factor: float = 1.0) -> str:
    """`mean (SD)` of the finite values."""
    v = values[np.isfinite(values)] * factor
    if not len(v):
        return "-"
    sd = v.std(ddof=1) if len(v) > 1 else 0.0
    return f"{v.mean():.{digits}f} ({sd:.{digits}f})"


def standard_error(values: np.ndarray) -> float:
    """SD over root n of the finite values; NaN for fewer than two."""
    v = values[np.isfinite(values)]
    return float(v.std(ddof=1) / np.sqrt(len(v))) if len(v) > 1 else np.nan


def mean_and_error(values: Iterable[np.ndarray], scale: float = 1.0) -> tuple[list[float], list[float]]:
    """Means and standard errors of several samples, times `scale`; NaN where nothing is finite."""
    every = [v[np.isfinite(v)] for v in values]
    means = [float(v.mean()) * scale if len(v) else np.nan for v in every]
    return means, [standard_error(v) * scale for v in every]


def failed_note(values: Mapping[str, np.ndarray]) -> list[str]:
    """One note for methods that could not be fitted on some draws."""
    failed = {name: int(np.isnan(v).sum()) for name, v in values.items() if np.isnan(v).any()}
    if not failed:
        return []
    return ["Not fitted, and left out of mean and test: " + "; ".join(f"{k} x {name}" for name, k in failed.items())]
