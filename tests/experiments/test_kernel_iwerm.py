"""The two-step learners of the paper against plain loops with dense solves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from covshift import OneStepRegressor
from covshift.exceptions import AllWeightsZeroError
from covshift.experiments.contract import Draw
from covshift.experiments.kernel_iwerm import (
    TwoStep,
    fit_two_step,
    make_problem,
    ratio_at_source,
    search_ratio,
)
from covshift.experiments.methods import eiwerm_like_default
from covshift.experiments.problems import toy
from covshift.losses import get_loss

REGS = (0.01, 0.1, 1.0)
WIDTHS = (0.3, 0.8)


@pytest.fixture(scope="module")
def draw():
    return toy.draw(3, n_source=60, n_target=55, n_eval=80)


def gauss(X, C, sigma):
    return np.exp(-((X[:, None, :] - C) ** 2).sum(-1) / (2 * sigma**2))


def ridge(P, w, y, reg):
    return np.linalg.solve(P.T @ (w[:, None] * P) + reg * len(P) * np.eye(P.shape[1]), P.T @ (w * y))


def brute_force(draw, problem, families, judge):
    """Predictions of the candidate (width, family, reg) with the lowest IWCV score; squared loss."""
    C, best = problem.entry.sample.basis.centers, (np.inf, None)
    for sigma in WIDTHS:
        for w in families:
            for reg in REGS:
                score = 0.0
                for fold in problem.folds:
                    alpha = ridge(gauss(draw.X[fold.train], C, sigma), w[fold.train], draw.y[fold.train], reg)
                    r = gauss(draw.X[fold.test], C, sigma) @ alpha - draw.y[fold.test]
                    score += judge[fold.test] @ r**2
                best = min(best, (score, (sigma, w, reg)), key=lambda pair: pair[0])
    sigma, w, reg = best[1]
    return gauss(draw.X_eval, C, sigma) @ ridge(gauss(draw.X, C, sigma), w, draw.y, reg)


def ulsif(draw, problem, sigma, reg, a=0.0):
    C = problem.entry.sample.basis.centers
    S, T = gauss(draw.X, C, sigma), gauss(draw.X_target, C, sigma)
    H = (1 - a) * S.T @ S / len(S) + a * T.T @ T / len(T)
    return S @ np.maximum(np.linalg.solve(H + reg * np.eye(len(C)), T.mean(0)), 0.0)


def ulsif_search(draw, problem, a):
    """(sigma, reg) with the lowest mean held-out score, by refits."""
    C, scores = problem.entry.sample.basis.centers, {}
    for sigma in WIDTHS:
        S, T = gauss(draw.X, C, sigma), gauss(draw.X_target, C, sigma)
        for reg in REGS:
            total = 0.0
            for f in problem.folds:
                s, t = S[f.train], T[f.target_train]
                H = (1 - a) * s.T @ s / len(s) + a * t.T @ t / len(t)
                beta = np.maximum(np.linalg.solve(H + reg * np.eye(len(C)), t.mean(0)), 0.0)
                gs, gt = S[f.test] @ beta, T[f.target_test] @ beta
                total += (1 - a) / 2 * np.mean(gs**2) + a / 2 * np.mean(gt**2) - np.mean(gt)
            scores[sigma, reg] = total
    return min(scores, key=scores.get)


@pytest.mark.parametrize("weighting", ["none", "flattened", "relative"])
def test_equals_a_plain_loop_over_all_candidates(draw, weighting):
    exponents = (0.0, 0.5, 1.0)
    how = TwoStep(weighting, "squared", WIDTHS, REGS, WIDTHS, REGS, exponents)
    problem = make_problem(draw, 7)
    ratio = ulsif(draw, problem, *ulsif_search(draw, problem, 0.0))
    families = {
        "none": [np.ones(60)],
        "flattened": [ratio**gamma for gamma in exponents],
        "relative": [ulsif(draw, problem, *ulsif_search(draw, problem, a), a) for a in exponents],
    }[weighting]
    expected = brute_force(draw, problem, families, np.ones(60) if weighting == "none" else ratio)
    assert fit_two_step(draw, 7, how).predict(draw.X_eval) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("a", [0.0, 0.5])
def test_ratio_search_is_the_one_by_refits(draw, a):
    problem = make_problem(draw, 1)
    found = search_ratio(problem, WIDTHS, REGS, a)
    assert found == ulsif_search(draw, problem, a)
    assert ratio_at_source(problem, *found, a) == pytest.approx(ulsif(draw, problem, *found, a), abs=1e-10)


def test_flattening_zero_is_erm_judged_by_the_ratio(draw):
    one_reg = {"bandwidth_f": (0.5,), "reg_f": (0.1,)}
    flat = fit_two_step(draw, 0, TwoStep("flattened", reg_g=REGS, exponents=(0.0,), **one_reg))
    erm = fit_two_step(draw, 0, TwoStep("none", **one_reg))
    assert flat.predict(draw.X_eval) == pytest.approx(erm.predict(draw.X_eval), abs=1e-10)


def test_relative_alpha_zero_is_flattening_one(draw):
    same = {"reg_f": REGS, "reg_g": REGS}
    relative = fit_two_step(draw, 0, TwoStep("relative", exponents=(0.0,), **same))
    flattened = fit_two_step(draw, 0, TwoStep("flattened", exponents=(1.0,), **same))
    assert relative.predict(draw.X_eval) == pytest.approx(flattened.predict(draw.X_eval), abs=1e-10)
    assert relative.weights == pytest.approx(flattened.weights)


def test_tukey_minimises_the_weighted_tukey_risk(draw):
    fitted = fit_two_step(draw, 2, TwoStep("given", "tukey", (0.5,), (0.05,), exponents=(0.5,)))
    problem = make_problem(draw, 2)
    C, w, loss = problem.entry.sample.basis.centers, draw.true_ratio**0.5, get_loss("tukey")
    P = gauss(draw.X, C, 0.5)

    def risk(alpha):
        return np.mean(w * loss.value(P @ alpha, draw.y)) + 0.05 * alpha @ alpha

    def slope(alpha):
        return P.T @ (w * loss.derivative(P @ alpha, draw.y)) / len(P) + 0.1 * alpha

    found = minimize(risk, np.zeros(P.shape[1]), jac=slope, method="BFGS", options={"gtol": 1e-10})
    assert fitted.predict(draw.X_eval) == pytest.approx(gauss(draw.X_eval, C, 0.5) @ found.x, abs=1e-5)


def test_centres_and_median_are_those_of_the_one_step_estimator(draw):
    model = OneStepRegressor.from_paper(random_state=11).fit(draw.X, draw.y, X_target=draw.X_target)
    problem = make_problem(draw, 11)
    assert np.array_equal(problem.entry.sample.basis.centers, model.centers_)
    assert problem.median == model.best_params_["bandwidth_f"]


def test_same_frame_without_weights_is_the_default_without_weights(draw):
    """The two codes meet where g = 1: ERM in the default's basis, score and averaging."""
    model = OneStepRegressor(reg_g=np.inf, random_state=5).fit(draw.X, draw.y, X_target=draw.X_target)
    same = eiwerm_like_default.fit(draw, 5, weighting="none")
    assert same.predict(draw.X_eval) == pytest.approx(model.predict(draw.X_eval), abs=1e-8)


def test_standardised_fit_does_not_depend_on_units(draw):
    how = TwoStep("flattened", exponents=(0.0, 1.0), standardize=True)
    moved = Draw(draw.kind, draw.X * 7 - 3, draw.y * 50 + 20, draw.X_target * 7 - 3, draw.X_eval * 7 - 3, draw.y_eval)
    plain, scaled = fit_two_step(draw, 0, how), fit_two_step(moved, 0, how)
    assert scaled.predict(moved.X_eval) == pytest.approx(plain.predict(draw.X_eval) * 50 + 20, rel=1e-6, abs=1e-6)


def test_more_than_two_classes_come_back_as_they_were_given():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)) + 4 * np.repeat(np.eye(3, 2), 30, axis=0)
    y = np.repeat(["a", "b", "c"], 30)
    draw = Draw("classification", X, y, X + 0.1, X, y)
    predicted = fit_two_step(draw, 0, TwoStep("flattened", exponents=(0.5,), standardize=True)).predict(X)
    assert set(predicted) <= {"a", "b", "c"} and np.mean(predicted == y) > 0.9


def test_no_weight_anywhere_is_an_error_not_erm(draw):
    apart = Draw(draw.kind, draw.X - 500, draw.y, draw.X_target, draw.X_eval, draw.y_eval)
    with pytest.raises(AllWeightsZeroError, match=r"bandwidth=0.1 and reg=0.1"):
        fit_two_step(apart, 0, TwoStep("flattened", bandwidth_g=(0.1,), reg_g=(0.1,)))


def test_given_weights_need_a_known_ratio(draw):
    unknown = Draw(draw.kind, draw.X, draw.y, draw.X_target, draw.X_eval, draw.y_eval)
    with pytest.raises(ValueError, match="true ratio is known"):
        fit_two_step(unknown, 0, TwoStep("given"))
