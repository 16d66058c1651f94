"""The two bounded regression losses as functions of the scaled residual t = r / s, and their factors."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ._base import Values, sup_of_ratio

__all__ = ["RHO", "C", "tukey", "tukey_over_welsch", "welsch", "welsch_exponent", "welsch_over_tukey"]

RHO = 4.685  # both constants: 95 % efficiency of least squares at Gaussian noise of scale s
C = 2.9846


def tukey(t: Values) -> Values:
    """min(1 - (1 - u^2)^3, 1), u = t / rho; overwrites t."""
    t /= RHO
    np.clip(t, -1.0, 1.0, out=t)  # before squaring: a huge residual must not overflow
    t *= t
    # 1 - (1 - v)^3 = v (3 - 3 v + v^2) with v = u^2: no cancellation for small residuals
    q = t - 3.0
    q *= t
    q += 3.0
    t *= q
    return t


def welsch_exponent(t: Values) -> Values:
    """-(t / c)^2, cut where its exponential is zero to double precision; overwrites t."""
    t /= C
    np.clip(t, -30.0, 30.0, out=t)
    t *= t
    return np.negative(t, out=t)


def welsch(t: Values) -> Values:
    """1 - exp(-(t / c)^2); overwrites t."""
    v = np.expm1(welsch_exponent(t), out=t)
    return np.negative(v, out=v)


@lru_cache(maxsize=1)
def tukey_over_welsch() -> float:
    """sup of Tukey over Welsch at equal scale; past rho the ratio only falls."""
    return sup_of_ratio(lambda t: tukey(t.copy()), lambda t: welsch(t.copy()), 1e-6, RHO)


@lru_cache(maxsize=1)
def welsch_over_tukey() -> float:
    """sup of Welsch over Tukey at equal scale; past rho the ratio is Welsch itself, below its limit 1."""
    up_to_rho = sup_of_ratio(lambda t: welsch(t.copy()), lambda t: tukey(t.copy()), 1e-6, RHO)
    return max(up_to_rho, 1.0)
