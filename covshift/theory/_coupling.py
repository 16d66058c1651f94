"""What the loss term does to g when g is unrestricted: g = r - c lbar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

__all__ = ["CoupledWeights", "coupled_weights"]


@dataclass(frozen=True)
class CoupledWeights:
    """The minimiser g of J(f, .), its constant c, and the minimum J itself."""

    g: np.ndarray
    c: float
    J: float


def coupled_weights(
    lbar: np.ndarray, r: np.ndarray, p: np.ndarray, m: float = 1.0, *, nonnegative: bool = True
) -> CoupledWeights:
    """argmin over g of J = (E[lbar g])^2 + m^2 E[(g - r)^2], E[.] = sum p (.) / sum p over source points.

        any g:   g = r - c lbar,           c = E[lbar r] / (m^2 + E[lbar^2]),   J = m^2 c E[lbar r]
        g >= 0:  g = max(r - c lbar, 0),   c the root of m^2 c = E[lbar g]

    lbar(x) = E[l | x] is the conditional loss: where it is large the weight falls. docs/theory.md derives it.

    Parameters
    ----------
    lbar, r, p : arrays (n,)
        Conditional loss >= 0, density ratio, and source probabilities (or quadrature weights) of n points.

    Examples
    --------
    >>> import numpy as np
    >>> w = coupled_weights(np.ones(4), np.array([0.5, 0.5, 1.0, 2.0]), np.ones(4), nonnegative=False)
    >>> w.c, w.g, w.J          # l = m everywhere: J reaches R^2 / 2
    (0.5, array([0. , 0. , 0.5, 1.5]), 0.5)
    """
    p = p / p.sum()
    R, s = float(p @ (lbar * r)), float(p @ lbar**2)
    c = R / (m**2 + s)
    g = r - c * lbar
    if nonnegative and g.min() < 0:
        # E[lbar g] falls in c from R at c = 0, so the root is unique and at most R / m^2
        root = brentq(lambda t: m**2 * t - float(p @ (lbar * np.maximum(r - t * lbar, 0.0))), 0.0, R / m**2)
        c = float(root)
        g = np.maximum(r - c * lbar, 0.0)
    J = float(p @ (lbar * g)) ** 2 + m**2 * float(p @ (g - r) ** 2)
    return CoupledWeights(g=g, c=c, J=J)
