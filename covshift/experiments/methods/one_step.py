"""The paper's Algorithm 1 to the letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from covshift import OneStepClassifier, OneStepRegressor
from covshift.experiments.contract import Draw, Fitted
from covshift.experiments.kernel_iwerm import make_problem, search_ratio

__all__ = ["fit", "fit_estimator"]


def fit(
    draw: Draw,
    seed: int,
    *,
    bandwidth_f: Sequence[float] | str = "median",
    bandwidth_g: Sequence[float] | str = "median",
    reg_g: Sequence[float] = (),
    g_from_ulsif: bool = False,
    median_of: str = "pooled",
    **options: Any,
) -> Fitted:
    """`from_paper`, with the paper's two heuristics as options.

    Parameters
    ----------
    g_from_ulsif : bandwidth_g and reg_g are those that uLSIF's own cross-validation chooses on these grids
    median_of : rows whose distances to the centres give the median; "pooled" is the estimator's own
    options : other parameters of the estimator
    """
    asked: dict[str, Any] = {"bandwidth_f": bandwidth_f, "bandwidth_g": bandwidth_g, **options}
    if len(reg_g):
        asked["reg_g"] = reg_g
    if g_from_ulsif or median_of != "pooled":
        shared = {key: options[key] for key in ("standardize", "n_centers", "centers", "cv") if key in options}
        problem = make_problem(draw, seed, median_of=median_of, **shared)
        for name in ("bandwidth_f", "bandwidth_g"):
            asked[name] = problem.median if asked[name] == "median" else asked[name]
        if g_from_ulsif:
            asked["bandwidth_g"], asked["reg_g"] = search_ratio(problem, bandwidth_g, reg_g)
    Estimator = OneStepClassifier if draw.kind == "classification" else OneStepRegressor
    return fit_estimator(Estimator.from_paper(random_state=seed, **asked), draw)


def fit_estimator(model: Any, draw: Draw) -> Fitted:
    """A fitted one-step estimator as the frame wants it."""
    model.fit(draw.X, draw.y, X_target=draw.X_target)
    return Fitted(model.predict, model.weights_)
