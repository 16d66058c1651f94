"""The weighted SVM: duality gap, a generic solver, and liblinear where it converges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from sklearn.svm import LinearSVC

from covshift.exceptions import ConvergenceWarning
from covshift.onestep import _hinge
from covshift.onestep._f_step import FRows
from covshift.onestep._hinge import hinge_step


def problem(seed=0, n=60, q=5, frequencies=False):
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(n, q))
    y = np.where(Phi[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    W = rng.exponential(size=(n, 3)) * (rng.random((n, 3)) > 0.3)
    s = rng.integers(1, 4, n).astype(float) if frequencies else None
    return FRows(Phi, y[:, None], np.ones(q), s), W, np.array([1e-4, 1e-2, 1.0])


def primal(rows, w, reg, alpha):
    s = np.ones(len(w)) if rows.s is None else rows.s
    l = np.maximum(1 - rows.Y[:, 0] * (rows.Phi @ alpha), 0)
    return (s * w * l).sum() / s.sum() + reg * alpha @ alpha


def generic(rows, w, reg):
    """The linear-quadratic programme over (alpha, xi) by a general constrained solver."""
    n, q = rows.Phi.shape
    s = np.ones(n) if rows.s is None else rows.s
    v, Z = s * w / s.sum(), rows.Y * rows.Phi
    keep = v > 0
    v, Z, k = v[keep], Z[keep], int(keep.sum())
    rng = np.random.default_rng(0)
    solved = minimize(
        lambda x: reg * x[:q] @ x[:q] + v @ x[q:],
        np.r_[0.01 * rng.normal(size=q), np.full(k, 2.0)],
        jac=lambda x: np.r_[2 * reg * x[:q], v],
        method="SLSQP",
        bounds=[(None, None)] * q + [(0, None)] * k,
        constraints=LinearConstraint(np.hstack([Z, np.eye(k)]), lb=1.0),
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return solved.x[:q]


@pytest.mark.parametrize("frequencies", [False, True])
def test_objective_is_that_of_a_generic_convex_solver(frequencies):
    rows, W, regs = problem(n=30, q=3, frequencies=frequencies)
    alpha = hinge_step(rows, W, regs)
    for c in range(3):
        ours, theirs = (primal(rows, W[:, c], regs[c], a) for a in (alpha[:, 0, c], generic(rows, W[:, c], regs[c])))
        assert abs(ours - theirs) <= 1e-5 * theirs
        assert ours <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_solution_is_liblinears_where_that_converges(seed):
    """C = 1 / (2 n reg_f) with n all rows, weights as they are, rows without weight left out."""
    rows, W, regs = problem(seed)
    alpha = hinge_step(rows, W, regs)
    for c in range(3):
        kept = W[:, c] > 0
        svm = LinearSVC(
            loss="hinge", dual=True, fit_intercept=False, C=1 / (2 * 60 * regs[c]), tol=1e-10,
            max_iter=10**6, random_state=0,
        ).fit(rows.Phi[kept], rows.Y[kept, 0], sample_weight=W[kept, c])  # fmt: skip
        assert svm.n_iter_ < 10**6
        np.testing.assert_allclose(alpha[:, 0, c], svm.coef_[0], atol=1e-5, rtol=1e-4)


def test_gap_is_certified_where_coordinate_descent_needs_millions_of_passes():
    """Gaussians in one dimension, numerically of low rank, rotated: weak duality bounds the optimum from below."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=150)
    Phi = np.exp(-0.5 * (x[:, None] - x[:50]) ** 2)
    e, V = np.linalg.eigh(Phi.T @ Phi)
    y = np.where(x + 0.5 * rng.normal(size=150) > 0, 1.0, -1.0)
    rows = FRows(Phi @ V[:, e > 1e-15 * e[-1]], y[:, None], np.ones((e > 1e-15 * e[-1]).sum()))
    W, regs = rng.exponential(size=(150, 2)), np.array([1e-6, 1e-4])
    alpha = hinge_step(rows, W, regs)
    problem = _hinge._InteriorPoint(rows, W / 150, regs)
    problem.solve()
    assert problem.gap.max() <= 1e-9
    for c in range(2):
        total = W[:, c].sum() / 150
        a = problem.a[:, c] * total
        assert (a >= 0).all()
        assert (a <= W[:, c] / 150 * (1 + 1e-12)).all()
        pull = rows.Phi.T @ (y * a)
        dual = a.sum() - pull @ pull / (4 * regs[c])
        value = primal(rows, W[:, c], regs[c], alpha[:, 0, c])
        assert dual <= value * (1 + 1e-12)
        assert value - dual <= 1e-8 * value


def test_weight_on_one_class_only_has_no_solution():
    rows, W, regs = problem()
    W[rows.Y[:, 0] < 0, 1] = 0.0
    alpha = hinge_step(rows, W, regs)
    assert np.isnan(alpha[..., 1]).all()
    assert np.isfinite(alpha[..., [0, 2]]).all()


def test_weights_times_c_are_reg_f_divided_by_c():
    rows, W, regs = problem()
    np.testing.assert_allclose(hinge_step(rows, 5 * W, regs), hinge_step(rows, W, regs / 5), atol=1e-6, rtol=1e-5)


def test_not_converging_is_said(monkeypatch):
    rows, W, regs = problem()
    monkeypatch.setattr(_hinge, "_ROUNDS", 2)
    with pytest.warns(ConvergenceWarning, match="duality gap of .* consider a larger reg_f"):
        hinge_step(rows, W, regs)
