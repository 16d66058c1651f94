"""The f-step of many candidates at once against one dense solve a candidate."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from scipy.optimize import minimize

from covshift.basis import GaussianBasis
from covshift.losses import get_loss
from covshift.onestep import _f_step
from covshift.onestep._f_step import FRows, irls_step, ridge_step, solve_candidates
from covshift.onestep._sample import FBasis, Sample


def problem(seed=0, n=40, q=6, K=1, intercept=True, frequencies=False):
    rng = np.random.default_rng(seed)
    Phi, penalty = rng.normal(size=(n, q)), np.ones(q)
    if intercept:
        Phi[:, -1], penalty[-1] = 1.0, 0.0
    s = rng.integers(1, 4, n).astype(float) if frequencies else None
    return FRows(Phi, rng.normal(size=(n, K)), penalty, s), rng.exponential(size=(n, 3)), np.array([1e-3, 0.1, 10.0])


def by_hand(rows, w, reg):
    s = np.ones(len(rows.Phi)) if rows.s is None else rows.s
    A = rows.Phi.T @ np.diag(s * w) @ rows.Phi + reg * s.sum() * np.diag(rows.penalty)
    return np.linalg.solve(A, rows.Phi.T @ np.diag(s * w) @ rows.Y)


@pytest.mark.parametrize("q", [1, 6, 33])  # 33: beyond the lock-step Cholesky
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("frequencies", [False, True])
def test_ridge_step_is_the_dense_solve(q, K, frequencies):
    rows, W, regs = problem(q=q, K=K, intercept=q > 1, frequencies=frequencies)
    alpha = ridge_step(rows, W, regs)
    for c in range(3):
        np.testing.assert_allclose(alpha[..., c], by_hand(rows, W[:, c], regs[c]), rtol=1e-8, atol=1e-10)


def test_lock_step_cholesky_is_numpys_solve():
    rng = np.random.default_rng(0)
    q, K, c = 12, 2, 5
    A = np.stack([(M := rng.normal(size=(q, q))) @ M.T + np.eye(q) for _ in range(c)])
    B = rng.normal(size=(c, q, K))
    i, j = np.triu_indices(q)
    S = np.vstack([A[:, i, j].T, np.moveaxis(B, 0, 2).reshape(q * K, c)])
    kept = S.copy()
    ridge, penalty = rng.random(c), rng.integers(0, 2, q).astype(float)
    solved = solve_candidates(S, ridge, penalty, K)
    for k in range(c):
        np.testing.assert_allclose(
            solved[..., k], np.linalg.solve(A[k] + ridge[k] * np.diag(penalty), B[k]), rtol=1e-9
        )
    np.testing.assert_array_equal(S, kept)


def test_blocks_without_kept_products_give_the_same_numbers(monkeypatch):
    rows, W, regs = problem(n=500)
    kept = ridge_step(rows, W, regs)
    monkeypatch.setattr(_f_step, "_KEPT_PRODUCTS", 0)
    fresh = FRows(rows.Phi, rows.Y, rows.penalty)
    assert fresh.products is None
    np.testing.assert_allclose(ridge_step(fresh, W, regs), kept, rtol=1e-9)


def test_weights_times_c_are_reg_f_divided_by_c():
    rows, W, regs = problem(intercept=False)
    np.testing.assert_allclose(ridge_step(rows, 7.0 * W, regs), ridge_step(rows, W, regs / 7.0), rtol=1e-10)
    assert np.abs(ridge_step(rows, 7.0 * W, regs) - ridge_step(rows, W, regs)).max() > 1e-3


@pytest.mark.parametrize("name", ["tukey", "welsch"])
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_irls_finds_a_minimum_of_the_penalised_weighted_loss(name, scale):
    """Stationary to 1e-6, and a generic minimiser started there finds nothing better."""
    rows, W, _ = problem(seed=1)
    loss, reg = get_loss(name, scale=scale), 0.01
    start = ridge_step(rows, W, np.full(3, reg))
    alpha = irls_step(rows, W, np.full(3, reg), loss, start)
    s = np.ones(len(rows.Phi))
    for c in range(3):

        def value(a, c=c):
            l = reference.loss_values(name, (rows.Phi @ a)[:, None], rows.Y, scale)
            return reference.mean(W[:, c] * l, s) + reg * (rows.penalty * a**2).sum()

        found = minimize(value, alpha[:, 0, c], method="BFGS", options={"gtol": 1e-9})
        assert value(alpha[:, 0, c]) <= found.fun + 1e-9
        assert value(alpha[:, 0, c]) < value(start[:, 0, c])


def test_dropping_the_constant_of_tukeys_weight_is_another_regularisation():
    """omega(0) = 3 / rho^2: without it reg_f would be 7.3 times larger."""
    rows, W, _ = problem(seed=2)
    small = FRows(rows.Phi, 1e-4 * rows.Y, rows.penalty)  # residuals so small that the loss is its quadratic
    loss, reg = get_loss("tukey"), np.full(3, 0.05)
    alpha = irls_step(small, W, reg, loss, ridge_step(small, W, reg))
    np.testing.assert_allclose(alpha, ridge_step(small, W, reg * 4.685**2 / 3.0), rtol=1e-5)


@pytest.mark.parametrize(("d", "rank"), [(1, 25), (10, 50)])
def test_rotation_of_the_basis_changes_no_prediction(d, rank):
    """Ridge on Phi R, R'R = I, predicts what ridge on all Gaussians predicts; in one dimension with fewer columns."""
    rng = np.random.default_rng(0)
    X, X_target, y = rng.normal(size=(150, d)), rng.normal(size=(100, d)), rng.normal(size=(150, 1))
    C = X_target[:50]
    basis = GaussianBasis(C)
    sample = Sample(X, y, None, X_target, basis, intercept=False)
    f = FBasis.of(sample, basis.prepare(X), basis.prepare(X_target), 1.0)
    assert f.Phi.shape[1] <= rank
    np.testing.assert_allclose(f.R.T @ f.R, np.eye(f.R.shape[1]), atol=1e-12)
    w, reg = rng.exponential(size=(150, 1)), np.array([1e-4])
    alpha = ridge_step(f.rows(sample), w, reg)
    Phi, Phi_target = reference.gaussians(X, C, 1.0), reference.gaussians(X_target, C, 1.0)
    full = reference.ridge(Phi, y, w[:, 0], 1e-4, np.ones(150), False)
    coef, intercept = f.unrotate(alpha)
    assert not intercept.any()
    np.testing.assert_allclose(f.Phi_target @ alpha[:, 0], Phi_target @ full, atol=1e-7)
    np.testing.assert_allclose(Phi @ coef[:, 0], Phi @ full, atol=1e-7)
