"""Weight transforms: flattening, relative importance, clipping, normalising to mean one.

One convention of scale holds in the whole package. Weights are on the ratio's own scale, where a true ratio averages
one over the source, and reach a learner as they are, times the rows' frequencies; nothing normalises them silently.
A learner that minimises sum_i w_i l_i + reg |coef|^2 then gives the same fit for (c w, reg) as for (w, reg / c).
Whoever wants the penalty of the unweighted fit to keep its meaning normalises first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from covshift._checks import check_number
from covshift.exceptions import AllWeightsZeroError

__all__ = ["TRANSFORMS", "clip", "flatten", "normalize", "relative"]


def flatten(w: np.ndarray, flattening: float) -> np.ndarray:
    """w^gamma, gamma = `flattening` in [0, 1] (EIWERM, section 2.2 of the paper): 1 keeps w, 0 gives ones.

    c w becomes c^gamma times as much.

    Examples
    --------
    >>> import numpy as np
    >>> flatten(np.array([0.25, 1.0, 4.0]), 0.5)
    array([0.5, 1. , 2. ])
    """
    gamma = check_number("flattening", flattening, 0.0, 1.0)
    return w if gamma == 1.0 else np.power(w, gamma)


def relative(w: np.ndarray, relative_alpha: float) -> np.ndarray:
    """w / ((1 - a) + a w), a = `relative_alpha` in [0, 1]: the relative importance that belongs to the plain one w.

    Bounded by 1/a; 0 keeps w, 1 gives ones where w > 0. The only transform that needs w on the scale of a true
    ratio: p_target / ((1 - a) p_source + a p_target) is no function of c p_target / p_source. `RuLSIF` estimates it
    directly, which is more accurate.

    Examples
    --------
    >>> import numpy as np
    >>> relative(np.array([0.0, 1.0, 3.0]), 0.5)
    array([0. , 1. , 1.5])
    """
    a = check_number("relative_alpha", relative_alpha, 0.0, 1.0)
    if a == 0.0:
        return w
    return np.divide(w, (1.0 - a) + a * w, out=np.zeros_like(w), where=w > 0)


def clip(w: np.ndarray, upper: float = np.inf, lower: float = 0.0) -> np.ndarray:
    """min(max(w, lower), upper); the bounds scale with w. No bound keeps w.

    Examples
    --------
    >>> import numpy as np
    >>> clip(np.array([0.1, 1.0, 30.0]), upper=10.0)
    array([ 0.1,  1. , 10. ])
    """
    low = check_number("lower", lower, 0.0)
    high = check_number("upper", upper, low, open_low=True)
    return w if low == 0.0 and high == np.inf else np.clip(w, low, high)


def normalize(w: np.ndarray, sample_weight: np.ndarray | None = None) -> np.ndarray:
    """w / mean w over rows with frequencies `sample_weight`; the same for c w.

    Examples
    --------
    >>> import numpy as np
    >>> normalize(np.array([1.0, 3.0]))
    array([0.5, 1.5])
    """
    mean = float(np.average(w, weights=sample_weight))
    if not mean > 0:
        raise AllWeightsZeroError(
            "weights are zero for every row that counts, so they have no mean to be normalised by: use a larger "
            "bandwidth or regularisation of the ratio"
        )
    return w / mean


TRANSFORMS: dict[str, Callable[..., np.ndarray]] = {
    "flatten": flatten,
    "relative": relative,
    "clip": clip,
    "normalize": normalize,
}
