"""Leave-one-out and k-fold scores against fits that are really carried out."""

import numpy as np
import pytest

from covshift._split import Fold, paired_folds
from covshift.basis import GaussianBasis
from covshift.ratio._least_squares import feature_moments, moments
from covshift.ratio._leave_one_out import leave_one_out_scores
from covshift.ratio._search import search_least_squares

BANDWIDTHS = np.array([0.3, 1.0, 3.0])
REGS = np.array([1e-3, 0.1, 1.0])


def samples(n_source, n_target, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_source, 2)), rng.normal(size=(n_target, 2)) + 0.5, rng


def refit(P, Q, s, t, reg, a):
    """beta of rows P with frequencies s and Q with frequencies t, by a dense solve."""
    H = (1 - a) * (P.T * s) @ P / s.sum() + a * (Q.T * t) @ Q / t.sum()
    return np.maximum(np.linalg.solve(H + reg * np.eye(len(H)), t @ Q / t.sum()), 0)


def brute_single(P, Q, s, reg, a):
    J, t = 0.0, np.ones(len(Q))
    for i in range(len(P)):
        g = P[i] @ refit(P, Q, s - np.eye(len(P))[i], t, reg, a)
        J += s[i] / s.sum() * (1 - a) / 2 * g * g
    for j in range(len(Q)):
        g = Q[j] @ refit(P, Q, s, t - np.eye(len(Q))[j], reg, a)
        J += (a / 2 * g * g - g) / len(Q)
    return J


def brute_pairs(P, Q, reg, a):
    n, s, t = min(len(P), len(Q)), np.ones(len(P)), np.ones(len(Q))
    J = 0.0
    for i in range(n):
        beta = refit(P, Q, s - np.eye(len(P))[i], t - np.eye(len(Q))[i], reg, a)
        g_s, g_t = P[i] @ beta, Q[i] @ beta
        J += (1 - a) / 2 * g_s**2 + a / 2 * g_t**2 - g_t
    return J / n


def grid(basis, X, T, score):
    return np.array(
        [[score(basis.transform(X, width), basis.transform(T, width), reg) for reg in REGS] for width in BANDWIDTHS]
    )


SIZES = [(23, 16), (18, 18), (14, 21)]


@pytest.mark.parametrize(("n_source", "n_target"), SIZES)
@pytest.mark.parametrize("a", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_single_equals_refits(n_source, n_target, a, weighted):
    X, T, rng = samples(n_source, n_target)
    s = rng.integers(1, 4, n_source).astype(float) if weighted else None
    basis = GaussianBasis(T[:9])
    ours = leave_one_out_scores(basis, X, T, s, BANDWIDTHS, REGS, a, "single")
    counts = np.ones(n_source) if s is None else s
    np.testing.assert_allclose(ours, grid(basis, X, T, lambda P, Q, r: brute_single(P, Q, counts, r, a)), rtol=1e-9)


@pytest.mark.parametrize(("n_source", "n_target"), SIZES)
@pytest.mark.parametrize("a", [0.0, 0.5, 1.0])
def test_pairs_equal_refits(n_source, n_target, a):
    X, T, _ = samples(n_source, n_target)
    basis = GaussianBasis(T[:9])
    ours = leave_one_out_scores(basis, X, T, None, BANDWIDTHS, REGS, a, "pairs")
    np.testing.assert_allclose(ours, grid(basis, X, T, lambda P, Q, r: brute_pairs(P, Q, r, a)), rtol=1e-9)


def test_frequencies_equal_copies():
    X, T, rng = samples(20, 15)
    s = rng.integers(1, 4, 20)
    basis = GaussianBasis(T)
    weighted = leave_one_out_scores(basis, X, T, s.astype(float), BANDWIDTHS, REGS, 0.3, "single")
    copies = leave_one_out_scores(basis, np.repeat(X, s, axis=0), T, None, BANDWIDTHS, REGS, 0.3, "single")
    np.testing.assert_allclose(weighted, copies, rtol=1e-11)


def test_of_a_frequency_below_one_all_is_left_out():
    X, T, rng = samples(30, 15)
    s = rng.uniform(0.01, 3.0, 30)
    s[0] = 25.0
    basis, reg = GaussianBasis(T[:9]), 1e-3
    P, Q = basis.transform(X, 1.0), basis.transform(T, 1.0)
    J, outer, h = 0.0, (P.T * s) @ P, Q.mean(axis=0)
    for i, removed in enumerate(np.minimum(s, 1)):
        A = (outer - removed * np.outer(P[i], P[i])) / (s.sum() - 1) + reg * np.eye(9)
        J += s[i] / s.sum() * 0.5 * (P[i] @ np.maximum(np.linalg.solve(A, h), 0)) ** 2
    A = outer / s.sum() + reg * np.eye(9)
    for j in range(15):
        J -= Q[j] @ np.maximum(np.linalg.solve(A, np.delete(Q, j, axis=0).mean(axis=0)), 0) / 15
    ours = leave_one_out_scores(basis, X, T, s, np.array([1.0]), np.array([reg]), 0.0, "single")[0, 0]
    assert ours == pytest.approx(J, rel=1e-9)


def test_single_does_not_depend_on_order_and_pairs_do():
    X, T, rng = samples(25, 25)
    basis = GaussianBasis(T[:9])
    order = rng.permutation(25)
    for kind, same in (("single", True), ("pairs", False)):
        first = leave_one_out_scores(basis, X, T, None, BANDWIDTHS, REGS, 0.0, kind)
        second = leave_one_out_scores(basis, X[order], T, None, BANDWIDTHS, REGS, 0.0, kind)
        assert np.allclose(first, second, rtol=1e-10) == same


def test_many_blocks_equal_refits_of_chosen_rows():
    """3,000 rows are several blocks; the total is checked against a direct downdate of every row."""
    X, T, _ = samples(3000, 2500)
    basis, reg, width = GaussianBasis(T[:40]), 0.1, 1.0
    ours = leave_one_out_scores(basis, X, T, None, np.array([width]), np.array([reg]), 0.0, "pairs")[0, 0]
    P, Q = basis.transform(X, width), basis.transform(T, width)
    n_s, n_t, total = len(X), len(T), 0.0
    outer, h_sum = P.T @ P, Q.sum(axis=0)
    for i in range(n_t):
        A = (outer - np.outer(P[i], P[i])) / (n_s - 1) + reg * np.eye(40)
        beta = np.maximum(np.linalg.solve(A, (h_sum - Q[i]) / (n_t - 1)), 0)
        total += 0.5 * (P[i] @ beta) ** 2 - Q[i] @ beta
    assert ours == pytest.approx(total / n_t, rel=1e-9)


@pytest.mark.parametrize("a", [0.0, 0.5])
@pytest.mark.parametrize("cut", [True, False])
def test_fold_scores_equal_fits_by_hand(a, cut):
    X, T, rng = samples(40, 25)
    s = rng.integers(1, 4, 40).astype(float)
    basis = GaussianBasis(T[:9])
    folds = paired_folds(4, X, None, len(T), random_state=0)
    if not cut:  # training parts that are not the complement of what is held out
        folds = [Fold(f.train[::2], f.test, f.target_train[::2], f.target_test) for f in folds]
    ours = search_least_squares(X, T, s, basis, BANDWIDTHS, REGS, folds, a)

    def by_hand(P, Q, reg):
        J = []
        for f in folds:
            beta = refit(P[f.train], Q[f.target_train], s[f.train], np.ones(len(f.target_train)), reg, a)
            g_s, g_t = P[f.test] @ beta, Q[f.target_test] @ beta
            J.append((1 - a) / 2 * np.average(g_s**2, weights=s[f.test]) + a / 2 * np.mean(g_t**2) - g_t.mean())
        return np.mean(J)

    expected = grid(basis, X, T, by_hand)
    np.testing.assert_allclose(ours.scores, expected, rtol=1e-9)
    k, r = np.unravel_index(expected.argmin(), expected.shape)
    assert (ours.bandwidth, ours.reg) == (BANDWIDTHS[k], REGS[r])


def test_threads_change_nothing():
    X, T, _ = samples(40, 30)
    one = search_least_squares(X, T, None, GaussianBasis(T), BANDWIDTHS, REGS, "single")
    two = search_least_squares(X, T, None, GaussianBasis(T), BANDWIDTHS, REGS, "single", n_jobs=2)
    assert np.array_equal(one.scores, two.scores)


def test_moments_of_a_subset_and_of_the_rest_make_the_whole():
    X, T, rng = samples(700, 10)
    s = rng.uniform(0.5, 2, 700)
    basis, part = GaussianBasis(T), np.sort(rng.choice(700, 300, replace=False))
    whole = moments(basis, X, BANDWIDTHS, s)
    rest = whole.without(moments(basis, X, BANDWIDTHS, s, subset=part))
    others = np.setdiff1d(np.arange(700), part)
    Psi = basis.transform(X[others], BANDWIDTHS[1])
    np.testing.assert_allclose(
        rest.second_moment[1], (Psi.T * s[others]) @ Psi / s[others].sum(), rtol=1e-9, atol=1e-14
    )
    np.testing.assert_allclose(rest.mean[1], s[others] @ Psi / s[others].sum(), rtol=1e-9)


def test_feature_moments_are_plain_means():
    X, T, rng = samples(50, 10)
    s = rng.uniform(0.5, 2, 50)
    basis = GaussianBasis(T)
    H, h = feature_moments(basis, X, 0.7, s)
    Psi = basis.transform(X, 0.7)
    np.testing.assert_allclose(H, (Psi.T * s) @ Psi / s.sum(), rtol=1e-12)
    np.testing.assert_allclose(h, s @ Psi / s.sum(), rtol=1e-12)
    nothing, same = feature_moments(basis, X, 0.7, s, second=False)
    assert nothing is None
    assert np.array_equal(h, same)


def test_one_row_cannot_be_left_out():
    X, T, _ = samples(20, 1)
    with pytest.raises(ValueError, match=r"X_target has 1 row.*more than 1.*one bandwidth and one reg"):
        leave_one_out_scores(GaussianBasis(T), X, T, None, BANDWIDTHS, REGS)
