"""Control: EIWERM with the default's basis, units, score and selection, so that only the weights differ."""

from __future__ import annotations

from typing import Any

from covshift import OneStepClassifier, OneStepRegressor
from covshift.experiments.contract import Draw, Fitted
from covshift.experiments.kernel_iwerm import TwoStep, fit_two_step


def fit(draw: Draw, seed: int, *, weighting: str = "flattened", **options: Any) -> Fitted:
    """`weighting` "given" is the true ratio in the same frame; `options` are fields of `TwoStep`."""
    default = OneStepClassifier() if draw.kind == "classification" else OneStepRegressor()
    shared = ("bandwidth_f", "centers", "standardize", "criterion", "selection", "variance_weight", "sharpness")
    how = {name: getattr(default, name) for name in shared}
    return fit_two_step(draw, seed, TwoStep(weighting=weighting, **(how | options)))
