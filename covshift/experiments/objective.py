"""The metric: owned here, so that no method judges itself."""

from __future__ import annotations

import numpy as np

__all__ = ["METRIC_OF", "error_rate", "mse"]


def mse(predicted: np.ndarray, y: np.ndarray) -> float:
    """Mean of (f(x) - y)^2."""
    return float(np.mean((np.asarray(predicted, dtype=np.float64) - y) ** 2))


def error_rate(predicted: np.ndarray, y: np.ndarray) -> float:
    """Share of rows whose label is not the predicted one."""
    return float(np.mean(np.asarray(predicted) != y))


METRIC_OF = {"regression": ("mse", mse), "classification": ("error_rate", error_rate)}
