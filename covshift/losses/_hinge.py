"""The hinge loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ._base import Loss, Values, margin

__all__ = ["Hinge"]


@dataclass(frozen=True)
class Hinge(Loss):
    """l = max(0, 1 - y f), y in {-1, +1}; dominates the zero-one loss with factor 1.

    >>> Hinge().value([2.0, 0.0, -1.0], 1.0)
    array([0., 1., 2.])
    """

    name: ClassVar[str] = "hinge"
    task: ClassVar[str] = "classification"
    bound: ClassVar[float] = float("inf")

    def value(self, f: ArrayLike, y: ArrayLike) -> Values:
        z = margin(f, y)
        np.subtract(1.0, z, out=z)
        return np.maximum(z, 0.0, out=z)

    def derivative(self, f: ArrayLike, y: ArrayLike) -> Values:
        z = margin(f, y)
        return np.where(z < 1.0, -np.asarray(y, dtype=z.dtype), z.dtype.type(0.0))

    def domination(self) -> dict[str, float]:
        return {"zero_one": 1.0}
