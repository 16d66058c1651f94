"""The softmax cross-entropy, in nats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax

from ._base import Loss, Values

__all__ = ["CrossEntropy"]


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """l = log sum_k exp f_k - f_y, scores f of shape (n, K[, candidates]), codes y in 0..K-1 of shape (n,).

    A wrong argmax means softmax(f)_y <= 1/2 and l >= ln 2 < 1: only l / ln 2 (the loss in bits) dominates the
    zero-one loss.

    >>> CrossEntropy().value([[0.0, 0.0], [0.0, 50.0]], [0, 1]).round(4)
    array([0.6931, 0.    ])
    """

    name: ClassVar[str] = "cross_entropy"
    task: ClassVar[str] = "multiclass"
    bound: ClassVar[float] = float("inf")

    def value(self, f: ArrayLike, y: ArrayLike) -> Values:
        scores = _floating(f)
        own = np.take_along_axis(scores, _codes(scores, y), axis=1)
        return np.asarray(logsumexp(scores - own, axis=1))

    def derivative(self, f: ArrayLike, y: ArrayLike) -> Values:
        scores = _floating(f)
        d = softmax(scores, axis=1)
        codes = np.broadcast_to(_codes(scores, y), (scores.shape[0], 1, *scores.shape[2:]))
        np.put_along_axis(d, codes, np.take_along_axis(d, codes, axis=1) - d.dtype.type(1.0), axis=1)
        return d

    def domination(self) -> dict[str, float]:
        return {"zero_one": 1.0 / math.log(2.0)}


def _floating(f: ArrayLike) -> Values:
    scores = np.asarray(f)
    return scores if scores.dtype.kind == "f" else scores.astype(np.float64)


def _codes(scores: Values, y: ArrayLike) -> NDArray[np.intp]:
    """Codes (n,) shaped (n, 1, ..., 1) to index axis 1 of the scores."""
    return np.asarray(y).astype(np.intp).reshape((-1,) + (1,) * (scores.ndim - 1))
