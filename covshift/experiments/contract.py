"""What a problem hands to a method, and what a method hands back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Draw", "Fitted", "MIN_EVAL_ROWS", "Spec", "draw_rows"]

# Fewer rows say nothing about an error.
MIN_EVAL_ROWS = 20


@dataclass(frozen=True)
class Draw:
    """One draw of a problem: what a method may see, and the rows that it is judged on.

    `kind` is "regression" or "classification". A method reads `X`, `y`, `X_target` and nothing else; only the
    control with the true ratio reads `true_ratio` (at the source rows; None where it is unknown). `X_eval`, `y_eval`
    belong to the metric.
    """

    kind: str
    X: np.ndarray
    y: np.ndarray
    X_target: np.ndarray
    X_eval: np.ndarray
    y_eval: np.ndarray
    true_ratio: np.ndarray | None = None


@dataclass(frozen=True)
class Fitted:
    """A fitted method: predictions for any rows, and the weights of the source rows where it has them."""

    predict: Callable[[np.ndarray], np.ndarray]
    weights: np.ndarray | None = None


@dataclass(frozen=True)
class Spec:
    """A method or a problem by its printed name, its file and the options that the file's function gets.

    `columns` are values of an experiment's own columns in the rows (a problem's only).
    """

    name: str
    file: str
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)


def draw_rows(
    kind: str,
    source: tuple[np.ndarray, np.ndarray],
    target: tuple[np.ndarray, np.ndarray],
    n_source: int,
    n_target: int,
    rng: np.random.Generator,
    true_ratio: np.ndarray | None = None,
) -> Draw:
    """n_source rows of the source and n_target of the target without replacement; the target's rest evaluates."""
    (X, y), (X_rest, y_rest) = source, target
    if len(y) < n_source or len(y_rest) < n_target + MIN_EVAL_ROWS:
        raise ValueError(
            f"n_source={n_source}, n_target={n_target}: the parts have {len(y)} and {len(y_rest)} rows, and "
            f"{MIN_EVAL_ROWS} of the target must remain for evaluation"
        )
    i, j = rng.permutation(len(y))[:n_source], rng.permutation(len(y_rest))
    ratio = None if true_ratio is None else true_ratio[i]
    seen, judged = j[:n_target], j[n_target:]
    return Draw(kind, X[i], y[i], X_rest[seen], X_rest[judged], y_rest[judged], ratio)
