"""The median heuristic."""

from __future__ import annotations

import numpy as np

from covshift.basis._gaussian import squared_distances

# Distances that the exact median may take at once: 2^24 floats, 128 MiB. Above that rows are thinned evenly.
_MAX_DISTANCES = 1 << 24


def weighted_median(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The median of values with frequencies: weight k counts like k copies (mean of the two middle ones if even).

    Examples
    --------
    >>> import numpy as np
    >>> weighted_median(np.array([1.0, 2.0, 10.0]), np.array([1, 1, 2]))
    6.0
    """
    values = np.asarray(values).ravel()
    if weights is None:
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    values, cumulated = values[order], np.cumsum(np.asarray(weights, dtype=float).ravel()[order])
    half = 0.5 * cumulated[-1]
    upper = int(np.searchsorted(cumulated, half * (1 + 1e-12), side="right"))
    lower = int(np.searchsorted(cumulated, half * (1 - 1e-12), side="left"))
    last = len(values) - 1
    return float(0.5 * (values[min(lower, last)] + values[min(upper, last)]))


def median_bandwidth(
    X: np.ndarray, X_target: np.ndarray | None, centers: np.ndarray, sample_weight: np.ndarray | None = None
) -> float:
    """Median Euclidean distance of all source and target rows, pooled, to the centres.

    Where more than half of the distances are zero (repeated rows) the median of the positive ones is taken, and 1
    where there is none. More than 2^24 distances are thinned to evenly spaced rows.
    """
    rows = X if X_target is None else np.vstack([X, X_target])
    weights = None
    if sample_weight is not None:
        ones = np.ones(0 if X_target is None else len(X_target))
        weights = np.concatenate([sample_weight, ones])
    step = -(-len(rows) * len(centers) // _MAX_DISTANCES)
    if step > 1:
        rows, weights = rows[::step], None if weights is None else weights[::step]
    distances = np.sqrt(squared_distances(rows, centers))
    spread = None if weights is None else np.repeat(weights, len(centers))
    median = weighted_median(distances, spread)
    if median > 0:
        return median
    positive = distances.ravel() > 0
    if not positive.any():
        return 1.0
    return weighted_median(distances.ravel()[positive], None if spread is None else spread[positive])
