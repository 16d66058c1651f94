"""Do the weights rest on enough source rows, and does the source reach the target at all?"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from covshift.basis import squared_distances
from covshift.blocks import sum_over_blocks
from covshift.exceptions import OverlapWarning

__all__ = ["effective_sample_size", "is_reweighted", "max_weight_share", "share_beyond_support", "warn_overlap"]

# Rows of either sample that the support rule looks at: 512 x 512 distances, a few milliseconds at any n.
_MAX_ROWS = 512
# Fewer than ten rows on either side say nothing about a share of one tenth.
_MIN_ROWS = 10
# A target row is beyond the support where its nearest source row is farther than this multiple of the 99 %
# quantile of the distances between neighbouring source rows.
_QUANTILE, _FACTOR = 0.99, 1.5
_MAX_SHARE_BEYOND = 0.10
_UNWEIGHTED_ESS = 0.99


def effective_sample_size(w: np.ndarray, s: np.ndarray | None = None) -> float:
    """n_eff = (sum s w)^2 / sum s w^2 for weights w of rows with frequencies s; 0 where all weights are zero.

    Examples
    --------
    >>> import numpy as np
    >>> effective_sample_size(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    largest = float(np.max(w, initial=0.0))
    if largest == 0.0:
        return 0.0

    def sums(w: np.ndarray, s: np.ndarray | None) -> np.ndarray:
        w = np.asarray(w, dtype=np.float64) / largest  # squares of tiny weights must not vanish
        sw = w if s is None else s * w
        return np.array([sw.sum(), sw @ w])

    first, second = sum_over_blocks(sums, w, s)
    return float(first**2 / second)


def max_weight_share(w: np.ndarray, s: np.ndarray | None = None) -> float:
    """max w / sum s w: the largest share that one source row has in any weighted sum."""
    total = float(np.sum(w, dtype=np.float64) if s is None else np.dot(s, w))
    return float(np.max(w)) / total if total > 0 else 0.0


def is_reweighted(ess: float, n: float) -> bool:
    """Whether weights worth `ess` of `n` rows differ from equal ones by more than 1 % of their effective size."""
    return bool(ess < _UNWEIGHTED_ESS * n)


def share_beyond_support(X: np.ndarray, X_target: np.ndarray) -> float:
    """Share of target rows whose nearest source row is farther than source rows are from each other.

    Inputs are z-scored on the pooled rows. With d(t) the distance of target row t to the nearest source row and q
    the 99 % quantile of the distances of distinct source rows to their nearest neighbours, t lies beyond the
    support where d(t) > 1.5 q. For equal samples about 1 % of the rows pass q itself; the factor keeps small samples
    quiet, whose quantile is their largest gap, and a target that merely lives in the source's tail. Both samples
    are thinned to 512 evenly spaced rows, so the cost is bounded at any n.
    """
    X, X_target = _thin(X), _thin(X_target)
    scale = np.maximum(np.abs(X).max(axis=0), np.abs(X_target).max(axis=0)).astype(np.float64)
    scale[scale == 0] = 1.0
    source, target = X / scale, X_target / scale  # no square overflows from here on
    spread = np.std(np.vstack([source, target]), axis=0)
    spread[spread <= 1e-12] = 1.0
    source, target = np.unique(source / spread, axis=0), target / spread
    to_source = np.sqrt(squared_distances(target, source).min(axis=1))
    gap = 0.0
    if len(source) > 1:
        within = squared_distances(source, source)
        np.fill_diagonal(within, np.inf)
        gap = float(np.quantile(np.sqrt(within.min(axis=1)), _QUANTILE))
    return float(np.mean(to_source > max(_FACTOR * gap, 1e-6)))


def warn_overlap(
    estimator: Any,
    w: np.ndarray,
    X: np.ndarray,
    X_target: np.ndarray | None,
    *,
    s: np.ndarray | None = None,
    stacklevel: int = 3,
) -> None:
    """`OverlapWarning` where the weights w of the source rows X rest on few rows or the target is out of reach.

    Two rules: n_eff below max(10, 5 % of n) (below half of n where n < 20: ten rows can be no demand on twelve), and
    more than 10 % of the target rows beyond the source's support (`share_beyond_support`), by a margin of
    0.5/sqrt(rows looked at), which is one-sided 5 % for a share of exactly a tenth. Ten rows are what it takes to
    estimate one mean to a third of its standard deviation; one target row in ten is where the extrapolated part
    starts to decide an average error. Of pairs of equal Gaussian samples of 20 rows or more in 1 to 10 dimensions
    fewer than 2 in 100 are warned about. `stacklevel=3` points at the caller of the function that calls this one.
    """
    n = float(len(w) if s is None else np.sum(s))
    ess = effective_sample_size(w, s)
    floor = min(max(10.0, 0.05 * n), 0.5 * n)
    name = type(estimator).__name__
    if ess < floor:
        warnings.warn(
            f"{name}: the weights of {n:.0f} source rows are worth {ess:.1f} rows (effective sample size; at least "
            f"{floor:.0f} expected). Regularise the ratio more, use RuLSIF, flatten the weights, or collect source "
            "rows nearer to the target.",
            OverlapWarning,
            stacklevel=stacklevel,
        )
    if X_target is None or min(len(X), len(X_target)) < _MIN_ROWS:
        return
    beyond = share_beyond_support(X, X_target)
    if beyond > _MAX_SHARE_BEYOND + 0.5 / np.sqrt(min(len(X), len(X_target), _MAX_ROWS)):
        warnings.warn(
            f"{name}: {beyond:.0%} of the target rows lie beyond the source's support (at most "
            f"{_MAX_SHARE_BEYOND:.0%} expected), where weights cannot help and predictions extrapolate. Drop the "
            "inputs that separate the two samples, or collect labels there.",
            OverlapWarning,
            stacklevel=stacklevel,
        )


def _thin(rows: np.ndarray) -> np.ndarray:
    return rows[:: -(-len(rows) // _MAX_ROWS)]
