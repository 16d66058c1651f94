"""Our default: the one-step estimators as they come, and the controls that change one thing about them."""

from __future__ import annotations

from typing import Any

from covshift import OneStepClassifier, OneStepRegressor
from covshift.experiments.contract import Draw, Fitted
from covshift.experiments.methods.one_step import fit_estimator


def fit(draw: Draw, seed: int, **options: Any) -> Fitted:
    """`options` are parameters of the estimator: none for the default, `coupling: 0` for no loss term in g."""
    Estimator = OneStepClassifier if draw.kind == "classification" else OneStepRegressor
    return fit_estimator(Estimator(random_state=seed, **options), draw)
