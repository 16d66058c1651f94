"""The logistic loss, in nats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ._base import Loss, Values, margin

__all__ = ["Logistic"]


@dataclass(frozen=True)
class Logistic(Loss):
    """l = log(1 + exp(-y f)), y in {-1, +1}.

    It is ln 2 < 1 at f = 0, where the zero-one loss is 1: only l / ln 2 (the loss in bits) dominates.

    >>> Logistic().value([0.0], 1.0).round(4)
    array([0.6931])
    """

    name: ClassVar[str] = "logistic"
    task: ClassVar[str] = "classification"
    bound: ClassVar[float] = float("inf")

    def value(self, f: ArrayLike, y: ArrayLike) -> Values:
        # log(1 + e^-z) = log1p(e^-|z|) + max(-z, 0): no overflow, and three times faster than logaddexp
        z = margin(f, y)
        tail = np.abs(z, out=np.empty_like(z))
        np.negative(tail, out=tail)
        np.exp(tail, out=tail)
        np.log1p(tail, out=tail)
        np.negative(z, out=z)
        np.maximum(z, 0.0, out=z)
        z += tail
        return z

    def derivative(self, f: ArrayLike, y: ArrayLike) -> Values:
        z = margin(f, y)
        return -np.asarray(y, dtype=z.dtype) * expit(-z)

    def domination(self) -> dict[str, float]:
        return {"zero_one": 1.0 / math.log(2.0)}
