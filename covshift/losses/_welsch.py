"""Welsch's loss: bounded by one, smooth everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ._base import Loss, Values, check_constants, residual
from ._bounded import C, tukey_over_welsch, welsch, welsch_exponent

__all__ = ["Welsch"]


@dataclass(frozen=True)
class Welsch(Loss):
    """l = 1 - exp(-(r / (c s))^2), r = f - y, c = 2.9846.

    IRLS weight omega = exp(-(r / (c s))^2) / (c s)^2.

    >>> Welsch().value([0.0, 1e6], 0.0)
    array([0., 1.])
    """

    name: ClassVar[str] = "welsch"
    task: ClassVar[str] = "regression"
    bound: ClassVar[float] = 1.0
    has_irls: ClassVar[bool] = True

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_constants(scale=self.scale)

    def value(self, f: ArrayLike, y: ArrayLike) -> Values:
        return welsch(residual(f, y, self.scale))

    def derivative(self, f: ArrayLike, y: ArrayLike) -> Values:
        d = self.irls_weight(f, y)
        d *= residual(f, y, 0.5)
        return d

    def irls_weight(self, f: ArrayLike, y: ArrayLike) -> Values:
        v = welsch_exponent(residual(f, y, self.scale))
        np.exp(v, out=v)
        v *= (C * self.scale) ** -2
        return v

    def domination(self) -> dict[str, float]:
        return {"tukey": tukey_over_welsch(), "welsch": 1.0}
