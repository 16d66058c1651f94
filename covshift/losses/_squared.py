"""The squared loss, for regression and, as (1 - y f)^2 with labels -1/+1, for classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ._base import Loss, Values, check_constants, residual
from ._bounded import RHO, C

__all__ = ["Squared"]


@dataclass(frozen=True)
class Squared(Loss):
    """l = (r / s)^2, r = f - y.

    For labels y in {-1, +1} it is (1 - y f)^2 / s^2, so it dominates the zero-one loss with factor s^2. It
    dominates Tukey's loss of the same scale with factor 3 / rho^2 and Welsch's with factor 1 / c^2 (both
    tangent at r = 0). In units of the plain square that is 3 / (rho s)^2: the plain square itself dominates
    only for rho s >= sqrt 3.

    >>> Squared().value([1.0, 3.0], 1.0)
    array([0., 4.])
    """

    name: ClassVar[str] = "squared"
    task: ClassVar[str] = "regression"
    bound: ClassVar[float] = float("inf")
    has_irls: ClassVar[bool] = True

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_constants(scale=self.scale)

    def value(self, f: ArrayLike, y: ArrayLike) -> Values:
        r = residual(f, y, self.scale)
        r *= r
        return r

    def derivative(self, f: ArrayLike, y: ArrayLike) -> Values:
        r = residual(f, y, self.scale)
        r *= 2.0 / self.scale
        return r

    def irls_weight(self, f: ArrayLike, y: ArrayLike) -> Values:
        r = residual(f, y, 1.0)
        r[...] = self.scale**-2
        return r

    def domination(self) -> dict[str, float]:
        return {"tukey": 3.0 / RHO**2, "welsch": 1.0 / C**2, "zero_one": float(np.square(self.scale))}
