"""The g-step: Sherman-Morrison on one factor against dense solves, and uLSIF as its loss-free case."""

from __future__ import annotations

import numpy as np
import pytest
import reference

from covshift.onestep._g_step import GRows, importance, make_systems, step_all, take_rows
from covshift.onestep._objective import objective, weighted_mean
from covshift.ratio._least_squares import clipped_betas


def problem(seed=0, n=30, n_target=20, b=6, frequencies=False):
    rng = np.random.default_rng(seed)
    Psi, Psi_target = [rng.random((n, b)) for _ in range(2)], [rng.random((n_target, b)) for _ in range(2)]
    s = rng.integers(1, 5, n).astype(float) if frequencies else None
    return GRows(Psi, Psi_target, [P.mean(axis=0) for P in Psi_target], s), rng


@pytest.mark.parametrize("shrink", ["zero", "one"])
@pytest.mark.parametrize("frequencies", [False, True])
@pytest.mark.parametrize("m", [1.0, 2.5])
def test_step_is_the_dense_solve(shrink, frequencies, m):
    rows, rng = problem(frequencies=frequencies)
    s = np.ones(30) if rows.s is None else rows.s
    which, regs = np.array([0, 0, 1, 1, 1]), np.array([1e-3, 1.0, 1e-6, 0.1, 10.0])
    l = rng.exponential(size=(30, 5))
    u, lbar = rows.loss_moments(l, which)
    betas = step_all(make_systems(rows), u, lbar, regs, which, shrink, m)
    for c in range(5):
        free, _ = reference.g_step(rows.Psi[which[c]], rows.Psi_target[which[c]], l[:, c], regs[c], shrink, s, m)
        np.testing.assert_allclose(betas[:, c], free, rtol=1e-8, atol=1e-10)


def test_without_losses_the_step_is_ulsif():
    rows, _ = problem(seed=1)
    regs = np.array([1e-2, 1.0])
    (system, _), nothing = make_systems(rows), (np.zeros((6, 2)), np.zeros(2))
    H = rows.Psi[0].T @ rows.Psi[0] / 30
    ulsif = clipped_betas(H, rows.h[0], regs)
    np.testing.assert_allclose(np.maximum(system.step(*nothing, regs, "zero", 1.0), 0), ulsif, atol=1e-12)
    np.testing.assert_allclose(system.loss_free(regs, 1.0), ulsif, atol=1e-12)
    assert (ulsif == 0).any()


def test_the_step_minimises_the_objective_plus_ridge():
    """Perturbations of beta in any direction raise (mean_s l g)^2 + mean_s g^2 - 2 mean_t g + reg |beta|^2."""
    rows, rng = problem(seed=2)
    l, reg = rng.exponential(size=(30, 1)), 0.1
    for shrink, one in (("zero", 0.0), ("one", 1.0)):
        u, lbar = rows.loss_moments(l, np.zeros(1, dtype=int))
        beta = make_systems(rows)[0].step(u, lbar, np.array([reg]), shrink, 1.0)[:, 0]

        def value(beta, one=one):
            g, g_target = one + rows.Psi[0] @ beta, one + rows.Psi_target[0] @ beta
            return np.mean(l[:, 0] * g) ** 2 + np.mean(g**2) - 2 * np.mean(g_target) + reg * beta @ beta

        for direction in rng.normal(size=(20, 6)):
            assert value(beta + 1e-3 * direction) > value(beta)


def test_infinite_regularisation_gives_zero():
    rows, rng = problem(seed=3)
    u, lbar = rows.loss_moments(rng.exponential(size=(30, 1)), np.zeros(1, dtype=int))
    beta = make_systems(rows)[0].step(u, lbar, np.array([np.inf]), "one", 1.0)
    np.testing.assert_array_equal(importance(rows.Psi[0], beta, "one"), 1.0)


def test_weights_are_never_negative_and_clip_where_the_family_says():
    rows, rng = problem(seed=4)
    beta = rng.normal(size=(6, 3)) * 2
    which = np.array([0, 0, 1])
    one = rows.weights(beta, which, "one")
    assert (one >= 0).all()
    assert (one == 0).any()
    np.testing.assert_allclose(one[:, 2], np.maximum(1 + rows.Psi[1] @ beta[:, 2], 0))
    zero = rows.weights(np.maximum(beta, 0), which, "zero")
    np.testing.assert_allclose(zero[:, 0], rows.Psi[0] @ np.maximum(beta[:, 0], 0))
    for shrink, W in (("one", rows.Psi_target), ("zero", rows.Psi_target)):
        clipped = np.maximum(beta, 0) if shrink == "zero" else beta
        expected = [reference.importance(W[j], clipped[:, c], shrink).mean() for c, j in enumerate(which)]
        np.testing.assert_allclose(rows.target_mean(clipped, which, shrink), expected)


@pytest.mark.parametrize("frequencies", [False, True])
def test_bound_is_the_objective(frequencies):
    rows, rng = problem(seed=5, frequencies=frequencies)
    s = np.ones(30) if rows.s is None else rows.s
    W, l, g_target = rng.random((30, 2)), rng.random((30, 2)), rng.random((20, 2))
    J = rows.bound(W, l, g_target.mean(axis=0), 1.5)
    expected = [reference.objective(l[:, c], W[:, c], g_target[:, c], s, 1.5) for c in range(2)]
    np.testing.assert_allclose(J, expected)


def test_objective_adds_the_constant_and_weighted_mean_counts_rows():
    assert objective(2.0, 3.0, 1.0, m=2.0, C=5.0) == 2.0**2 + 4.0 * (3.0 - 2.0 + 5.0)
    values, s = np.arange(6.0).reshape(3, 2), np.array([1.0, 0.0, 3.0])
    np.testing.assert_allclose(weighted_mean(values, s), np.repeat(values, [1, 0, 3], axis=0).mean(axis=0))


def test_rows_of_a_side_keep_their_frequencies():
    rows, _ = problem(frequencies=True)
    part = take_rows(rows, np.array([0, 3]), np.array([1]), [np.zeros(6)] * 2)
    np.testing.assert_array_equal(part.s, rows.s[[0, 3]])
    np.testing.assert_array_equal(part.Psi[1], rows.Psi[1][[0, 3]])
    np.testing.assert_array_equal(part.Psi_target[1], rows.Psi_target[1][[1]])
