"""RIWERM: weights are RuLSIF's relative ratio, whose alpha IWCV chooses together with f."""

from __future__ import annotations

from typing import Any

from covshift.experiments.contract import Draw, Fitted
from covshift.experiments.kernel_iwerm import TwoStep, fit_two_step


def fit(draw: Draw, seed: int, **options: Any) -> Fitted:
    """`options` are fields of `TwoStep`."""
    return fit_two_step(draw, seed, TwoStep(weighting="relative", **options))
