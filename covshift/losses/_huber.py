"""Huber's loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ._base import Loss, Values, check_constants, residual, sup_of_ratio
from ._bounded import RHO, C, tukey, welsch

__all__ = ["Huber"]


@dataclass(frozen=True)
class Huber(Loss):
    """l = t^2 / 2 for |t| <= delta, else delta (|t| - delta / 2), t = r / s, r = f - y.

    IRLS weight omega = min(1, delta / |t|) / (2 s^2). For the default delta it dominates Tukey's loss with
    factor 6 / rho^2 = 0.2734; for a small delta the linear part decides and the factor is found
    numerically.

    >>> Huber().value([0.0, 1.0, 10.0], 0.0).round(4)
    array([ 0.    ,  0.5   , 12.5455])
    """

    name: ClassVar[str] = "huber"
    task: ClassVar[str] = "regression"
    bound: ClassVar[float] = float("inf")
    has_irls: ClassVar[bool] = True

    scale: float = 1.0
    delta: float = 1.345

    def __post_init__(self) -> None:
        check_constants(scale=self.scale, delta=self.delta)

    def value(self, f: ArrayLike, y: ArrayLike) -> Values:
        # with a = min(|t|, delta): a |t| - a^2 / 2 is both branches at once
        t = residual(f, y, self.scale)
        np.abs(t, out=t)
        a = np.minimum(t, float(self.delta))
        t *= a
        a *= a
        a *= 0.5
        t -= a
        return t

    def derivative(self, f: ArrayLike, y: ArrayLike) -> Values:
        t = residual(f, y, self.scale)
        np.clip(t, -float(self.delta), float(self.delta), out=t)
        t /= float(self.scale)
        return t

    def irls_weight(self, f: ArrayLike, y: ArrayLike) -> Values:
        t = residual(f, y, self.scale)
        np.abs(t, out=t)
        np.maximum(t, float(self.delta), out=t)
        return np.divide(0.5 * self.delta / self.scale**2, t, out=t)

    def domination(self) -> dict[str, float]:
        return _factors(self.delta)


@lru_cache(maxsize=64)
def _factors(delta: float) -> dict[str, float]:
    """On |t| <= delta the ratios fall with |t|, so their sup is the limit at zero; beyond, they are scanned.

    Past rho the bounded losses are constant (Welsch: to 1e-10 past 5 c) and the ratio only falls.
    """
    huber = Huber(delta=delta)
    factors = {"tukey": 6.0 / RHO**2, "welsch": 2.0 / C**2}
    for name, bounded, end in (("tukey", tukey, RHO), ("welsch", welsch, 5 * C)):
        if delta < end:
            beyond = sup_of_ratio(partial(_of_copy, bounded), partial(huber.value, y=0.0), delta, end)
            factors[name] = max(factors[name], beyond)
    return factors


def _of_copy(loss: Callable[[Values], Values], t: Values) -> Values:
    return loss(t.copy())
