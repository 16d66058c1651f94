"""KMM: constraints hold, the gap is a certificate, and the extension is what the docstring says."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

from covshift.basis import squared_distances
from covshift.exceptions import OverlapWarning
from covshift.ratio import KMM
from covshift.ratio._kernel_program import Kernel, MatchingProgram, certified_gap, gaussian_kernel, match_means
from covshift.ratio._kmm import matching_weights, smoother


def two_samples(seed, n=151, n_target=120, d=1, shift=0.5):
    rng = np.random.default_rng(seed)
    X, X_target = rng.normal(1.0, 0.5, (n, d)), rng.normal(1.0, 0.4, (n_target, d))
    X_target[:, 0] += shift
    return X, X_target


def program_of(X, X_target, sigma, s=None, upper=5.0, slack=0.1, reg=0.0):
    s = np.ones(len(X)) if s is None else s
    kappa = np.exp(-squared_distances(X, X_target) / (2 * sigma**2)).mean(axis=1)
    return MatchingProgram(s / s.sum(), kappa, upper, slack, reg), np.exp(-squared_distances(X, X) / (2 * sigma**2))


def objective(program, K, w):
    v = program.p * w
    return 0.5 * v @ K @ v - program.kappa @ v + 0.5 * program.reg * program.p @ (w - 1) ** 2


@pytest.mark.parametrize(("upper", "slack"), [(5.0, 0.1), (1.5, 0.02), (100.0, 0.9)])
@pytest.mark.parametrize(("seed", "reg"), [(0, 0.0), (1, 0.01)])
def test_optimum_is_that_of_a_generic_solver(seed, reg, upper, slack):
    X, X_target = two_samples(seed, n=15, n_target=20)
    s = np.random.default_rng(seed).integers(1, 4, 15).astype(float)
    program, K = program_of(X, X_target, 0.4, s, upper, slack, reg)
    w = match_means(program, Kernel(None, K), 1e-9)
    generic = minimize(
        lambda w: 100 * objective(program, K, w),
        np.ones(15),
        jac=lambda w: 100 * program.p * program.gradient(K @ (program.p * w), w),
        bounds=[(0, upper)] * 15,
        constraints=[
            {"type": "ineq", "fun": lambda w: program.p @ w - 1 + slack},
            {"type": "ineq", "fun": lambda w: 1 + slack - program.p @ w},
        ],
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    assert abs(objective(program, K, w) - generic.fun / 100) < 1e-7


@pytest.mark.parametrize(("seed", "reg"), [(0, 0.0), (1, 0.0), (2, 0.01)])
def test_gap_bounds_what_is_missing_at_any_feasible_weights(seed, reg):
    X, X_target = two_samples(seed, n=41)
    program, K = program_of(X, X_target, 0.5, reg=reg)
    best = objective(program, K, match_means(program, Kernel(None, K), 1e-10))
    rng = np.random.default_rng(seed)
    for _ in range(20):
        w = np.minimum(rng.exponential(size=41), 5.0)
        w *= rng.uniform(0.9, 1.1) / w.mean()
        w = np.minimum(w, 5.0)
        if abs(w.mean() - 1) <= 0.1:
            gap = certified_gap(program, program.gradient(K @ (program.p * w), w), w)
            assert objective(program, K, w) - best <= gap + 1e-12


@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_low_rank_factor_and_whole_matrix_give_the_same_weights(sigma):
    X, X_target = two_samples(0, n=301)
    program, K = program_of(X, X_target, sigma)
    kernel = gaussian_kernel(X, sigma, 1e-12)
    assert kernel.L is not None and len(kernel.L) < 80
    np.testing.assert_allclose(kernel.L.T @ kernel.L, K, atol=2e-12)
    low, whole = (objective(program, K, match_means(program, k, 1e-8)) for k in (kernel, Kernel(None, K)))
    assert abs(low - whole) <= 2e-8


def test_rough_kernels_are_kept_whole():
    X, _ = two_samples(0, n=301, d=6)
    assert gaussian_kernel(X, 0.2, 1e-8).L is None


@pytest.mark.parametrize("n", [1, 2, 3, 37, 151, 256])
@pytest.mark.parametrize(("upper", "slack"), [(1000.0, 0.5), (1.5, 0.01)])
def test_constraints_and_gap_hold_and_every_row_is_kept(n, upper, slack):
    X, X_target = two_samples(n, n=n, n_target=53, d=2)
    ratio = KMM(upper=upper, sum_tolerance=slack, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        ratio.fit(X, X_target=X_target)
    w = ratio.weights_
    assert w.shape == (n,)
    assert w.min() >= 0 and w.max() <= upper
    assert abs(w.mean() - 1) <= slack
    assert 0 <= ratio.gap_ <= 1e-6


def test_gap_is_that_of_the_exact_kernel_matrix():
    X, X_target = two_samples(1)
    w, gap = matching_weights(X, X_target, np.ones(len(X)), 0.5, 5.0, 0.1, 1e-3, 1e-6)
    program, K = program_of(X, X_target, 0.5, reg=1e-3)
    assert abs(gap - certified_gap(program, program.gradient(K @ (program.p * w), w), w)) < 1e-12


def test_frequencies_are_copies():
    X, X_target = two_samples(2, n=61)
    s = np.random.default_rng(0).integers(0, 4, len(X))
    kept = np.repeat(np.arange(len(X)), s)
    make = KMM(bandwidth=(0.3, 1.0), upper=10.0, random_state=0)
    weighted = make.fit(X, X_target=X_target, sample_weight=s)
    g, w = weighted.predict(X), weighted.weights_[s > 0]
    repeated = make.fit(X[kept], X_target=X_target)
    np.testing.assert_allclose(g, repeated.predict(X), rtol=1e-3)
    first = np.concatenate([[0], np.cumsum(s[s > 0])[:-1]])
    np.testing.assert_allclose(w, repeated.weights_[first], rtol=1e-3, atol=1e-3)


def test_extension_is_the_kernel_mean_of_the_weights():
    X, X_target = two_samples(3)
    ratio = KMM(bandwidth=0.8, smoothing=0.5, standardize=False).fit(X, X_target=X_target)
    new = np.linspace(0, 2, 11)[:, None]
    k = np.exp(-((new - X.T) ** 2) / (2 * 0.4**2))
    np.testing.assert_allclose(ratio.predict(new), k @ ratio.weights_ / k.sum(axis=1), rtol=1e-9)
    far = ratio.predict([[1e6]])
    np.testing.assert_allclose(far, ratio.weights_[np.argmax(X)], rtol=1e-6)


def test_extension_counts_frequencies():
    Z, w = np.array([[0.0], [1.0]]), np.array([1.0, 3.0])
    twice = smoother(np.array([[0.3]]), Z[[0, 1, 1]], w[[0, 1, 1]], np.ones(3), 0.7)
    assert abs(smoother(np.array([[0.3]]), Z, w, np.array([1.0, 2.0]), 0.7)[0] - twice[0]) < 1e-12


def test_search_takes_the_largest_held_out_score():
    X, X_target = two_samples(4)
    ratio = KMM(bandwidth=(0.1, 1.0, 10.0), random_state=0).fit(X, X_target=X_target)
    scores = ratio.cv_results_["mean_test_score"]
    assert ratio.bandwidth_ == ratio.cv_results_["param_bandwidth"][np.argmax(scores)]
    assert len(np.unique(scores)) == 3


def test_direction_a_row_typical_of_the_target_weighs_more():
    X, X_target = two_samples(5)
    low, high = KMM(random_state=0).fit(X, X_target=X_target).predict([[0.3], [1.9]])
    assert low < 0.5 < 1.5 < high


def test_too_many_rows_are_refused_with_the_memory_they_would_take():
    X = np.zeros((20_001, 1))
    with pytest.raises(ValueError, match=r"X has 20001 rows, more than max_rows=20000.*6\.0 GiB.*not tried.*ULSIF"):
        KMM().fit(X, X_target=X[:5])
    with pytest.raises(ValueError, match="more than max_rows=10"):
        KMM(max_rows=10).fit(X[:11], X_target=X[:5])


def test_large_target_of_a_small_source_is_taken():
    rng = np.random.default_rng(0)
    ratio = KMM(random_state=0).fit(rng.normal(size=(50, 2)), X_target=rng.normal(0.3, 1, (200_000, 2)))
    assert ratio.gap_ <= 1e-6 and abs(ratio.weights_.mean() - 1) <= 0.5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bandwidth": 0.0}, "bandwidth=0.0: expected a number in"),
        ({"bandwidth": "auto"}, "bandwidth='auto': expected one of 'median'"),
        ({"reg": -1.0}, "reg=-1.0: expected a number in"),
        ({"upper": 1.0}, "upper=1.0: expected a number in"),
        ({"sum_tolerance": 0.0}, "sum_tolerance=0.0: expected"),
        ({"smoothing": 0}, "smoothing=0: expected"),
        ({"tol": -1.0}, "tol=-1.0: expected"),
        ({"max_rows": 0}, "max_rows=0: expected an integer >= 1"),
    ],
)
def test_parameters_that_make_no_sense_are_named(parameters, message):
    X, X_target = two_samples(0, n=20)
    with pytest.raises((ValueError, TypeError), match=message):
        KMM(**parameters).fit(X, X_target=X_target)
