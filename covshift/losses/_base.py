"""The contract of a loss: value, derivative, IRLS weight, bound, and what it dominates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from covshift._checks import check_number

__all__ = ["Loss", "check_constants", "margin", "residual", "sup_of_ratio"]

Values = NDArray[np.floating]


@dataclass(frozen=True)
class Loss(ABC):
    """l(f, y), elementwise with NumPy broadcasting.

    Final subclasses are frozen dataclasses, one file each, registered in ``losses/__init__.py``. The
    ``task`` fixes what ``f`` and ``y`` are: "regression" (real values), "classification" (margin score f,
    labels y in {-1, +1}) or "multiclass" (scores f of shape (n, K) or (n, K, candidates), codes y in
    0..K-1; ``value`` reduces axis 1). Floating dtypes are kept. Nothing is checked here: arrays come clean
    from the validation door.
    """

    name: ClassVar[str]
    task: ClassVar[str]
    bound: ClassVar[float]  # sup of the loss: m of the paper for a bounded loss, inf otherwise
    has_irls: ClassVar[bool] = False

    @abstractmethod
    def value(self, f: ArrayLike, y: ArrayLike) -> Values:
        """l(f, y)."""

    @abstractmethod
    def derivative(self, f: ArrayLike, y: ArrayLike) -> Values:
        """dl/df at (f, y); a subgradient where the loss has a kink, zero where it jumps."""

    def irls_weight(self, f: ArrayLike, y: ArrayLike) -> Values:
        """omega(f, y) >= 0 with dl/df = 2 omega (f - y); exists where ``has_irls`` is True."""
        raise TypeError(f"loss={self.name!r} has no IRLS weight; use squared, huber, tukey or welsch")

    @abstractmethod
    def domination(self) -> dict[str, float]:
        """{name of a bounded loss: smallest c with bounded <= c * self everywhere}, both at the same s."""


def check_constants(**values: float) -> None:
    """Refuse constants of a loss that are not positive and finite."""
    for argument, value in values.items():
        check_number(argument, value, 0.0, np.finfo(np.float64).max, open_low=True)


def residual(f: ArrayLike, y: ArrayLike, scale: float) -> Values:
    """(f - y) / scale as a new array that the caller may overwrite."""
    r = np.asarray(np.subtract(f, y))
    if r.dtype.kind != "f":
        r = r.astype(np.float64)
    if scale != 1.0:
        r /= float(scale)
    return r


def margin(f: ArrayLike, y: ArrayLike) -> Values:
    """The margin y f as a new floating array that the caller may overwrite."""
    z = np.asarray(np.multiply(f, y))
    return z if z.dtype.kind == "f" else z.astype(np.float64)


def sup_of_ratio(
    top: Callable[[Values], Values],
    bottom: Callable[[Values], Values],
    low: float,
    high: float,
    n_grid: int = 4097,
) -> float:
    """sup of top(u) / bottom(u) over low <= u <= high, low > 0: a grid, then Brent in the best cells.

    Both are smooth on [low, high] with few extrema, far fewer than grid cells; the result is rounded up by
    1e-12.
    """
    u = np.linspace(low, high, n_grid)
    ratio = top(u) / bottom(u)
    k = int(np.argmax(ratio))
    left, right = float(u[max(k - 1, 0)]), float(u[min(k + 1, n_grid - 1)])

    def negative(v: float) -> float:
        point = np.array([v])
        return -float((top(point) / bottom(point))[0])

    refined = minimize_scalar(negative, bounds=(left, right), method="bounded", options={"xatol": 1e-13})
    return max(float(ratio[k]), -float(refined.fun)) * (1 + 1e-12)
