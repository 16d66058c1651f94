"""KLIEP: the certificate is one, the optimum is the optimum, and nothing breaks at the edges."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

from covshift.exceptions import ConvergenceWarning, OverlapWarning
from covshift.ratio import KLIEP
from covshift.ratio._mixture import maximise_mean_log, optimality_gap


def two_samples(seed, n=150, n_target=None, d=1, shift=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(1.0, 0.5, (n, d))
    X_target = rng.normal(1.0, 0.4, (n_target or n, d))
    X_target[:, 0] += shift
    return X, X_target


def likelihood(A, theta):
    return np.log(A @ theta).mean()


@pytest.mark.parametrize("seed", range(4))
def test_optimum_is_that_of_a_generic_convex_solver(seed):
    rng = np.random.default_rng(seed)
    A = rng.gamma(0.3, size=(60, 7)) + 1e-3
    theta, gap, _ = maximise_mean_log(A, np.full(7, 1 / 7), tol=1e-10)
    generic = minimize(
        lambda t: -likelihood(A, t),
        np.full(7, 1 / 7),
        jac=lambda t: -(A / (A @ t)[:, None]).mean(axis=0),
        bounds=[(0, 1)] * 7,
        constraints={"type": "eq", "fun": lambda t: t.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert abs(likelihood(A, theta) + generic.fun) < 1e-8
    assert theta.min() >= 0 and abs(theta.sum() - 1) < 1e-12
    assert gap <= 1e-10


@pytest.mark.parametrize("seed", range(4))
def test_gap_bounds_what_is_missing(seed):
    rng = np.random.default_rng(seed)
    A = rng.gamma(0.5, size=(80, 12)) + 1e-6
    best, _, _ = maximise_mean_log(A, np.full(12, 1 / 12), tol=1e-12)
    for _ in range(20):
        theta = rng.dirichlet(np.ones(12))
        assert likelihood(A, best) - likelihood(A, theta) <= optimality_gap(A, theta) + 1e-12


def test_stopping_early_is_told_with_the_gap():
    rng = np.random.default_rng(0)
    A = rng.gamma(0.3, size=(200, 40)) + 1e-6
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        _, gap, _ = maximise_mean_log(A, np.full(40, 1 / 40), max_iter=1)
    assert gap > 1e-6


@pytest.mark.parametrize("factor", [0.02, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("seed", range(3))
def test_estimator_reaches_its_certificate_and_its_constraint(seed, factor):
    X, X_target = two_samples(seed, d=1 + 4 * (seed % 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        warnings.simplefilter("error", ConvergenceWarning)
        ratio = KLIEP(bandwidth=factor, random_state=seed).fit(X, X_target=X_target)
    assert ratio.gap_ <= 1e-6
    assert abs(ratio.weights_.mean() - 1) < 1e-9
    assert ratio.coef_.min() >= 0
    if factor >= 1:  # narrower features leave the range of plain numbers
        # The certificate again, in the letters of the docstring and from public attributes alone.
        Psi, Psi_target = (features(ratio, rows, X, X_target) for rows in (X, X_target))
        d = (Psi_target / Psi.mean(axis=0) / (Psi_target @ ratio.coef_)[:, None]).mean(axis=0)
        assert np.log(d.max()) <= 1e-6 + 1e-8


def features(ratio, rows, X, X_target):
    pooled = np.vstack([X, X_target])
    Z, C = ((a - pooled.mean(axis=0)) / pooled.std(axis=0) for a in (rows, ratio.centers_))
    return np.exp(-((Z[:, None] - C) ** 2).sum(axis=2) / (2 * ratio.bandwidth_**2))


def test_prediction_score_and_divergence_follow_their_formulas():
    X, X_target = two_samples(0)
    ratio = KLIEP(bandwidth=0.7, random_state=0).fit(X, X_target=X_target)
    g, g_target = (features(ratio, rows, X, X_target) @ ratio.coef_ for rows in (X, X_target))
    np.testing.assert_allclose(ratio.predict(X), g, rtol=1e-9)
    np.testing.assert_allclose(ratio.weights_, g, rtol=1e-9)
    assert abs(ratio.divergence_ - (1 + np.log(g_target).mean() - g.mean())) < 1e-9
    s = np.arange(len(X)) % 3
    expected = 1 + np.log(g_target).mean() - np.average(g, weights=s)
    assert abs(ratio.score(X, X_target=X_target, sample_weight=s) - expected) < 1e-9


def test_search_takes_the_largest_held_out_score():
    X, X_target = two_samples(1)
    ratio = KLIEP(bandwidth=(0.05, 0.5, 5.0), random_state=0).fit(X, X_target=X_target)
    scores = ratio.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert ratio.bandwidth_ == ratio.cv_results_["param_bandwidth"][np.argmax(scores)]
    assert len(np.unique(scores)) == 3


def test_frequencies_are_copies():
    X, X_target = two_samples(2, n=60)
    s = np.random.default_rng(0).integers(0, 4, len(X))
    kept = np.repeat(np.arange(len(X)), s)
    make = KLIEP(bandwidth=(0.3, 1.0), n_centers=30, random_state=0)
    weighted = make.fit(X, X_target=X_target, sample_weight=s).predict(X)
    repeated = make.fit(X[kept], X_target=X_target).predict(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6)


def test_equal_samples_give_weights_near_one():
    X, X_target = two_samples(3, n=400, d=3, shift=0.0)
    X_target = 1 + (X_target - 1) * 0.5 / 0.4
    ratio = KLIEP(random_state=0).fit(X, X_target=X_target)
    assert ratio.weights_.std() < 0.25


def test_direction_a_row_typical_of_the_target_weighs_more():
    X, X_target = two_samples(4)
    low, high = KLIEP(random_state=0).fit(X, X_target=X_target).predict([[0.3], [1.9]])
    assert low < 0.5 < 1.5 < high


def test_bandwidth_out_of_reach_is_an_error_that_names_it():
    X, X_target = two_samples(5, shift=50.0)
    with pytest.raises(ValueError, match=r"bandwidth=0.001: no centre is within reach.*larger bandwidth"):
        KLIEP(bandwidth=1e-3).fit(X, X_target=X_target)


def test_wide_targets_of_a_small_source_are_taken():
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(size=(50, 2)), rng.normal(0.3, 1, (1_000_000, 2))
    ratio = KLIEP(bandwidth=1.0, n_centers=3, random_state=0).fit(X, X_target=X_target)
    assert ratio.gap_ <= 1e-6 and abs(ratio.weights_.mean() - 1) < 1e-9


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bandwidth": 0.0}, "bandwidth=0.0: expected a number in"),
        ({"bandwidth": "medain"}, "did you mean 'median'"),
        ({"bandwidth": ()}, "bandwidth is an empty sequence"),
        ({"n_centers": 0}, "n_centers=0: expected an integer >= 1"),
        ({"centers": "tagret"}, "did you mean 'target'"),
        ({"tol": 0.0}, "tol=0.0: expected"),
        ({"max_iter": 2.5}, "max_iter=2.5: expected an integer"),
        ({"cv": 1}, "cv=1: cross-validation needs at least 2 folds"),
    ],
)
def test_parameters_that_make_no_sense_are_named(parameters, message):
    X, X_target = two_samples(0, n=20)
    with pytest.raises((ValueError, TypeError), match=message):
        KLIEP(**parameters).fit(X, X_target=X_target)
