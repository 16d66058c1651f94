"""Sigmoid calibration and row bookkeeping of the classifier ratio."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.utils.validation import _num_samples

__all__ = ["Sigmoid", "fit_sigmoid", "fold_units", "frame_kind", "row_codes", "scores_of", "stack_rows"]

# Probabilities of exactly 0 or 1 (forests) leave logits that calibration can still tell apart.
_EDGE = 1e-6
_MAX_STEPS = 100


@dataclass(frozen=True)
class Sigmoid:
    """P(target | score) = 1 / (1 + exp(-(a score + b))), a >= 0."""

    a: float
    b: float

    def log_odds(self, scores: np.ndarray) -> np.ndarray:
        return self.a * scores + self.b


def fit_sigmoid(scores: np.ndarray, labels: np.ndarray, s: np.ndarray) -> Sigmoid:
    """Platt's calibration: the logistic likelihood of labels given scores, with his smoothed targets.

    Scores that rank the samples the wrong way round say nothing: a is then 0, which is a constant ratio.

    Parameters
    ----------
    scores : (n,) ; labels : (n,), 0 source, 1 target ; s : (n,) frequencies
    """
    n_target, n_source = float(s @ labels), float(s @ (1 - labels))
    goal = np.where(labels == 1, (n_target + 1) / (n_target + 2), 1 / (n_source + 2))
    middle, spread = np.average(scores, weights=s), 1.0
    deviation = np.sqrt(np.average((scores - middle) ** 2, weights=s))
    if deviation > 0:
        spread = deviation
    x = (scores - middle) / spread
    a, b = _newton_logistic(x, goal, s)
    if a <= 0:
        return Sigmoid(0.0, float(logit(np.average(goal, weights=s))))
    return Sigmoid(a / spread, b - a * middle / spread)


def _newton_logistic(x: np.ndarray, goal: np.ndarray, s: np.ndarray) -> tuple[float, float]:
    """argmin over (a, b) of the cross-entropy of goal and expit(a x + b), by Newton steps halved as needed."""
    Z = np.column_stack([x, np.ones_like(x)])
    theta = np.array([0.0, logit(np.average(goal, weights=s))])

    def loss(theta: np.ndarray) -> float:
        return float(s @ (np.logaddexp(0.0, Z @ theta) - goal * (Z @ theta)))

    current = loss(theta)
    for _ in range(_MAX_STEPS):
        p = expit(Z @ theta)
        gradient = Z.T @ (s * (p - goal))
        curvature = (Z * (s * p * (1 - p))[:, None]).T @ Z
        curvature[np.diag_indices(2)] += 1e-12 * s.sum()
        step = np.linalg.solve(curvature, gradient)
        t = 1.0
        while loss(theta - t * step) > current and t > 1e-8:
            t /= 2
        theta = theta - t * step
        previous, current = current, loss(theta)
        if previous - current <= 1e-12 * abs(previous):
            break
    return float(theta[0]), float(theta[1])


def scores_of(classifier: Any, X: Any) -> np.ndarray:
    """One score a row that grows with P(target): the logit of predict_proba, else decision_function."""
    if hasattr(classifier, "predict_proba"):
        p = np.asarray(classifier.predict_proba(X), dtype=np.float64)[:, 1]
        return logit(np.clip(p, _EDGE, 1 - _EDGE))
    return np.asarray(classifier.decision_function(X), dtype=np.float64)


def frame_kind(X: Any) -> str | None:
    """ "pandas", "polars" or another frame's package; None where X is no frame."""
    return type(X).__module__.split(".")[0] if hasattr(X, "columns") else None


def stack_rows(X: Any, X_target: Any) -> Any:
    """Source rows above target rows, of the kind they came in."""
    kind = frame_kind(X)
    if kind == "pandas":
        return _stack_pandas(X, X_target)
    if kind == "polars":
        return sys.modules["polars"].concat([X, X_target], how="vertical_relaxed")
    if hasattr(X, "tocsr"):
        from scipy.sparse import vstack

        return vstack([X, X_target], format="csr")
    return np.concatenate([X, X_target])


def _stack_pandas(X: Any, X_target: Any) -> Any:
    pandas = sys.modules["pandas"]
    X, X_target = X.copy(deep=False), X_target.copy(deep=False)
    for column in X.columns:
        kinds = X[column].dtype, X_target[column].dtype
        # Categories that only one sample has would turn the column into plain objects.
        if all(isinstance(kind, pandas.CategoricalDtype) for kind in kinds) and kinds[0] != kinds[1]:
            both = pandas.CategoricalDtype(kinds[0].categories.union(kinds[1].categories, sort=False))
            X[column], X_target[column] = X[column].astype(both), X_target[column].astype(both)
    return pandas.concat([X, X_target], ignore_index=True)


def fold_units(X: Any, X_target: Any) -> np.ndarray:
    """(n, 1) numbers, ordered by content: source rows with equal numbers belong into one fold, as copies of one row.

    Rows that the target has too are on their own: they are values of discrete inputs, and a classifier that sees such
    a value in the target and never in the source would learn the opposite of the truth.
    """
    _, unit, count = np.unique(row_codes(X), axis=0, return_inverse=True, return_counts=True)
    unit = unit.ravel()
    if count.max() > 1:
        _, joint = np.unique(row_codes(stack_rows(X, X_target)), axis=0, return_inverse=True)
        joint, n = joint.ravel(), len(unit)
        shared = np.isin(joint[:n], joint[n:])
        unit[shared] = len(count) + np.arange(shared.sum())
    return unit[:, None]


def row_codes(X: Any) -> np.ndarray:
    """Numbers that are equal for equal rows, (n, any). Sparse rows all count as different."""
    if frame_kind(X) is not None:
        columns = [np.asarray(X[column]).astype(str) for column in X.columns]
        return np.column_stack([np.unique(values, return_inverse=True)[1] for values in columns])
    if hasattr(X, "tocsr"):
        return np.arange(_num_samples(X))[:, None]
    if X.dtype.kind in "OUS":
        columns = [X[:, j].astype(str) for j in range(X.shape[1])]
        return np.column_stack([np.unique(values, return_inverse=True)[1] for values in columns])
    return np.where(np.isnan(X), np.inf, X)
