"""The absolute loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import lambertw

from ._base import Loss, Values, check_constants, residual
from ._bounded import RHO, C

__all__ = ["Absolute"]

# max of 3u - 3u^3 + u^5 on [0, 1], at u^2 = (9 - sqrt 21) / 10: 1.24282
_U2 = (9.0 - math.sqrt(21.0)) / 10.0
TUKEY_OVER_U = math.sqrt(_U2) * (3.0 - 3.0 * _U2 + _U2**2)
# max of (1 - exp(-t^2)) / t, where 1 + 2v = exp v with v = t^2: 0.63818
_V = -0.5 - float(np.real(lambertw(-0.5 * math.exp(-0.5), -1)))
WELSCH_OVER_T = -math.expm1(-_V) / math.sqrt(_V)


@dataclass(frozen=True)
class Absolute(Loss):
    """l = |r| / s, r = f - y.

    It dominates Tukey's loss with factor 1.24282 / rho and Welsch's with 0.63818 / c. Its IRLS weight 1 /
    (2 s |r|) is infinite at r = 0, so it has none: use Huber's loss with a small delta.

    >>> Absolute(scale=2.0).value([1.0, -3.0], 1.0)
    array([0., 2.])
    """

    name: ClassVar[str] = "absolute"
    task: ClassVar[str] = "regression"
    bound: ClassVar[float] = float("inf")

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_constants(scale=self.scale)

    def value(self, f: ArrayLike, y: ArrayLike) -> Values:
        r = residual(f, y, self.scale)
        return np.abs(r, out=r)

    def derivative(self, f: ArrayLike, y: ArrayLike) -> Values:
        r = residual(f, y, 1.0)
        np.sign(r, out=r)
        r /= float(self.scale)
        return r

    def domination(self) -> dict[str, float]:
        return {"tukey": TUKEY_OVER_U / RHO, "welsch": WELSCH_OVER_T / C}
