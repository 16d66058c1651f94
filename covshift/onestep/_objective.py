"""The empirical upper bound of the target risk, written once: training, selection, bounds and tests call it."""

from __future__ import annotations

from typing import Any

import numpy as np


def objective(lg: Any, gg: Any, gt: Any, *, m: float = 1.0, C: Any = 0.0) -> Any:
    """J_UB = (mean_s l g)^2 + m^2 (mean_s g^2 - 2 mean_t g + C)  (equation "empirical" of the paper).

    Parameters
    ----------
    lg, gg, gt : mean of l g and of g^2 over source rows, mean of g over target rows; numbers or arrays
    m : bound of the loss that the risk is about
    C : mean_t r, which depends neither on f nor on g; 0 where only differences matter
    """
    return lg**2 + m**2 * (gg - 2.0 * gt + C)


def weighted_mean(values: np.ndarray, s: np.ndarray | None) -> np.ndarray:
    """Mean over rows with frequencies s (None: all one); values of shape (n, ...) give shape (...)."""
    if s is None:
        return values.mean(axis=0)
    return np.tensordot(s, values, axes=(0, 0)) / s.sum()
