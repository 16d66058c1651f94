"""Tukey's bisquare loss, rescaled to the range [0, 1] as in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ._base import Loss, Values, check_constants, residual
from ._bounded import RHO, tukey, welsch_over_tukey

__all__ = ["Tukey"]


@dataclass(frozen=True)
class Tukey(Loss):
    """l = min(1 - (1 - u^2)^3, 1), u = r / (rho s), r = f - y, rho = 4.685.

    IRLS weight omega = 3 / (rho s)^2 (1 - u^2)^2_+. The constant stays: without it reg_f would mean
    something else.

    >>> Tukey().value([0.0, 4.685, 100.0], 0.0)
    array([0., 1., 1.])
    """

    name: ClassVar[str] = "tukey"
    task: ClassVar[str] = "regression"
    bound: ClassVar[float] = 1.0
    has_irls: ClassVar[bool] = True

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_constants(scale=self.scale)

    def value(self, f: ArrayLike, y: ArrayLike) -> Values:
        return tukey(residual(f, y, self.scale))

    def derivative(self, f: ArrayLike, y: ArrayLike) -> Values:
        d = self.irls_weight(f, y)
        d *= residual(f, y, 0.5)
        return d

    def irls_weight(self, f: ArrayLike, y: ArrayLike) -> Values:
        v = residual(f, y, RHO * self.scale)
        np.clip(v, -1.0, 1.0, out=v)
        v *= v
        np.subtract(1.0, v, out=v)  # (1 - u^2)_+
        v *= v
        v *= 3.0 / (RHO * self.scale) ** 2
        return v

    def domination(self) -> dict[str, float]:
        return {"tukey": 1.0, "welsch": welsch_over_tukey()}
