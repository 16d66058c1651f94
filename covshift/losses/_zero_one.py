"""The zero-one loss: what classification is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ._base import Loss, Values, margin

__all__ = ["ZeroOne"]


@dataclass(frozen=True)
class ZeroOne(Loss):
    """l = 1 where y f <= 0, else 0, y in {-1, +1}; a score of zero counts as an error, as in the paper.

    >>> ZeroOne().value([2.0, 0.0, -1.0], 1.0)
    array([0., 1., 1.])
    """

    name: ClassVar[str] = "zero_one"
    task: ClassVar[str] = "classification"
    bound: ClassVar[float] = 1.0

    def value(self, f: ArrayLike, y: ArrayLike) -> Values:
        z = margin(f, y)
        return (z <= 0.0).astype(z.dtype)

    def derivative(self, f: ArrayLike, y: ArrayLike) -> Values:
        return np.zeros_like(margin(f, y))

    def domination(self) -> dict[str, float]:
        return {"zero_one": 1.0}
