"""The estimate of the risk bound: its formula by brute force, and a case where it is wrong."""

from __future__ import annotations

import numpy as np
import pytest
import reference

from covshift import OneStepClassifier, OneStepRegressor
from covshift.datasets import make_toy_regression

pytestmark = pytest.mark.filterwarnings("ignore::covshift.OverlapWarning")

RHO = 4.685


class Recorded(OneStepRegressor):
    def _folds(self, entry, seed):
        self.entry_, self.folds_ = entry, super()._folds(entry, seed)
        return self.folds_


class RecordedClassifier(OneStepClassifier):
    def _folds(self, entry, seed):
        self.entry_, self.folds_ = entry, super()._folds(entry, seed)
        return self.folds_


def brute_force(model, Y, factor, shrink, intercept):
    """(value, se, C, C_low) from fold models refitted by the reference: one candidate, unit frequencies."""
    sample, params = model.entry_.sample, model.best_params_
    sigma, C = params["bandwidth_f"], sample.basis.centers
    Phi, Phi_target = reference.gaussians(sample.X, C, sigma), reference.gaussians(sample.X_target, C, sigma)
    folds = [(f.train, f.test, f.target_train, f.target_test) for f in model.folds_]
    _, C_cross, _ = reference.reference_weights([(Phi, Phi_target)], folds, [params["reg_g"]], np.ones(len(Phi)))
    terms = []
    for train, test, target_train, target_test in folds:
        alpha, beta, _ = reference.algorithm_1(
            Phi[train], Y[train], Phi[train], Phi_target[target_train], params["reg_f"], params["reg_g"],
            shrink=shrink, start="loss_free", max_iter=model.max_iter, tol=model.tol, intercept=intercept,
        )  # fmt: skip
        l = factor * reference.loss_values("squared", reference.predict(Phi[test], alpha, intercept), Y[test])
        g, g_target = (reference.importance(P, beta, shrink) for P in (Phi[test], Phi_target[target_test]))
        terms.append((np.mean(l * g), np.mean(g**2), np.mean(g_target)))
    lg, gg, gt = np.array(terms).T
    low = 2 * gt.mean() - gg.mean()
    constant = max(C_cross, low)
    each = [min(1, np.sqrt(2 * (a**2 + max(b - 2 * c + constant, 0)))) for a, b, c in terms]
    whole = min(1, np.sqrt(2 * (lg.mean() ** 2 + max(gg.mean() - 2 * gt.mean() + constant, 0))))
    return whole, np.std(each, ddof=1) / np.sqrt(len(each)), constant, low


def mild_shift(seed=0, n=120, noise=0.3):
    rng = np.random.default_rng(seed)
    X, X_target = rng.normal(0, 1, (n, 1)), rng.normal(0.4, 0.9, (n, 1))
    return X, X[:, 0] + noise * rng.standard_normal(n), X_target


@pytest.mark.parametrize("shrink", ["one", "zero"])
def test_bound_of_a_regressor_is_its_formula(shrink):
    X, y, X_target = mild_shift()
    model = Recorded(shrink=shrink, reg_f=0.01, reg_g=0.1, n_centers=10, random_state=0)
    bound = model.fit(X, y, X_target=X_target).risk_bound_
    z = ((y - y.mean()) / y.std())[:, None]
    value, se, constant, low = brute_force(model, z, 3 / RHO**2, shrink, True)
    assert bound.value == pytest.approx(value, rel=1e-6)
    assert bound.se == pytest.approx(se, rel=1e-5)
    assert bound.constant == pytest.approx(constant, rel=1e-8)
    assert bound.constant_low == pytest.approx(low, rel=1e-6)
    assert bound.vacuous == (value >= 1)


def test_bound_of_a_classifier_is_its_formula():
    X, y, X_target = mild_shift(noise=0.05)
    model = RecordedClassifier(reg_f=0.001, reg_g=1.0, n_centers=10, random_state=0)
    bound = model.fit(X, y > 0, X_target=X_target).risk_bound_
    value, se, constant, _ = brute_force(model, np.where(y > 0, 1.0, -1.0)[:, None], 1.0, "one", False)
    assert (bound.value, bound.se, bound.constant) == pytest.approx((value, se, constant), rel=1e-6)
    assert not bound.vacuous


def test_constant_is_never_below_its_population_lower_bound():
    for seed in range(5):
        X, y, X_target = mild_shift(seed)
        bound = OneStepRegressor(random_state=seed).fit(X, y, X_target=X_target).risk_bound_
        assert bound.constant >= bound.constant_low
        assert 0 <= bound.value <= 1
        assert bound.se >= 0


def tukey_risk(model, X, y, scale):
    return reference.loss_values("tukey", model.predict(X)[:, None], y[:, None], scale).mean()


def test_toy_estimates_fall_below_the_true_risk_and_the_bound_itself_is_vacuous():
    """The true C = mean_target r is 14.9; with it the bound says nothing, and estimates of C are far too small."""
    below = 0
    for seed in range(12):
        toy = make_toy_regression(random_state=seed)
        model = OneStepRegressor(random_state=seed).fit(toy.X, toy.y, X_target=toy.X_target)
        bound, scale = model.risk_bound_, toy.y.std()
        assert bound.constant < 0.9 * 14.9
        below += bound.value < tukey_risk(model, toy.X_eval, toy.y_eval, scale)
        many = make_toy_regression(20_000, 20_000, 0, random_state=100 + seed)
        w, w_target = model.predict_weights(many.X), model.predict_weights(many.X_target)
        l = 3 / RHO**2 * ((model.predict(many.X) - many.y) / scale) ** 2
        assert np.sqrt(2 * (np.mean(l * w) ** 2 + np.mean(w**2) - 2 * np.mean(w_target) + 14.9)) > 1
    assert below >= 1


def test_true_constant_of_the_toy_is_fourteen_point_nine():
    """C = int p_target^2 / p_source, by a sum over target rows and by its closed form for two Gaussians."""
    toy = make_toy_regression(10, 400_000, 0, random_state=0)
    precision = 2 / 0.25**2 - 1 / 0.5**2
    middle = (2 * 2 / 0.25**2 - 1 / 0.5**2) / precision
    exponent = 0.5 * precision * middle**2 - 2**2 / 0.25**2 + 0.5 * 1**2 / 0.5**2
    exact = 0.5 / 0.25**2 * np.exp(exponent) / np.sqrt(precision)
    assert exact == pytest.approx(14.9, abs=0.05)
    assert toy.true_ratio(toy.X_target).mean() == pytest.approx(exact, rel=0.02)


def test_the_estimate_can_lie_below_the_true_risk():
    """Labels outside the source's reach are wrong: nothing the estimate sees tells, so it is no guarantee."""
    rng = np.random.default_rng(0)
    X, X_target = rng.uniform(-1, 1, (200, 1)), rng.uniform(-1, 1.6, (200, 1))

    def label(x):
        return np.where(x[:, 0] > 1, x[:, 0] < 0, x[:, 0] > 0)  # flips where the source never was

    model = OneStepClassifier(random_state=0, reg_f=1e-3, reg_g=10.0).fit(X, label(X), X_target=X_target)
    X_eval = rng.uniform(-1, 1.6, (20_000, 1))
    true_risk = np.mean(model.predict(X_eval) != label(X_eval))
    assert model.risk_bound_.value < true_risk
    assert not model.risk_bound_.vacuous


@pytest.mark.filterwarnings("ignore:n_centers")
def test_without_folds_there_is_no_estimate():
    X, y, X_target = mild_shift(n=3)
    bound = OneStepRegressor(reg_f=0.1, reg_g=0.1).fit(X, y, X_target=X_target).risk_bound_
    assert bound.vacuous
    assert np.isnan(bound.constant)
