"""Logistic and softmax f-steps: certified gradient, and the optimum of scipy and of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from covshift.exceptions import ConvergenceWarning
from covshift.losses import get_loss
from covshift.onestep import _f_convex
from covshift.onestep._f_convex import newton_step
from covshift.onestep._f_step import FRows


def problem(K, seed=0, n=80, q=4, frequencies=False):
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(n, q))
    codes = (Phi[:, 0] + rng.normal(size=n) > 0).astype(int) + (K > 2) * (Phi[:, 1] > 0.5)
    Y = np.where(codes == 1, 1.0, -1.0)[:, None] if K == 1 else np.where(codes[:, None] == np.arange(K), 1.0, -1.0)
    s = rng.integers(1, 4, n).astype(float) if frequencies else None
    W = rng.exponential(size=(n, 2)) * (rng.random((n, 2)) > 0.2)
    return FRows(Phi, Y, np.ones(q), s), W, np.array([1e-4, 0.1]), codes


def value(rows, w, reg, alpha):
    """mean w l + reg |alpha|^2 written out."""
    s = np.ones(len(w)) if rows.s is None else rows.s
    F = rows.Phi @ alpha
    if F.shape[1] == 1:
        l = np.logaddexp(0, -rows.Y[:, 0] * F[:, 0])
    else:
        l = np.log(np.exp(F).sum(axis=1)) - F[np.arange(len(F)), rows.Y.argmax(axis=1)]
    return (s * w * l).sum() / s.sum() + reg * (alpha**2).sum()


@pytest.mark.parametrize(("K", "name"), [(1, "logistic"), (2, "cross_entropy"), (3, "cross_entropy")])
@pytest.mark.parametrize("frequencies", [False, True])
def test_optimum_is_scipys_and_the_gradient_vanishes(K, name, frequencies):
    rows, W, regs, _ = problem(K, frequencies=frequencies)
    start = np.zeros((4, K, 2))
    alpha = newton_step(rows, W, regs, get_loss(name), start)
    for c in range(2):

        def flat(a, c=c):
            return value(rows, W[:, c], regs[c], a.reshape(4, K))

        found = minimize(flat, np.zeros(4 * K), method="BFGS", options={"gtol": 1e-7})
        assert flat(alpha[..., c].ravel()) <= found.fun + 1e-10
        np.testing.assert_allclose(rows.Phi @ alpha[..., c], rows.Phi @ found.x.reshape(4, K), atol=2e-2)
        step, a = 1e-5, alpha[..., c].ravel()
        slopes = [(flat(a + step * e) - flat(a - step * e)) / (2 * step) for e in np.eye(4 * K)]
        assert np.abs(slopes).max() <= 1e-8


def test_binary_fit_is_scikit_learns_logistic_regression():
    rows, W, regs, codes = problem(1)
    alpha = newton_step(rows, W, regs, get_loss("logistic"), np.zeros((4, 1, 2)))
    for c in range(2):
        theirs = LogisticRegression(C=1 / (2 * 80 * regs[c]), fit_intercept=False, tol=1e-10, max_iter=10_000)
        theirs.fit(rows.Phi, codes, sample_weight=W[:, c])
        np.testing.assert_allclose(alpha[:, 0, c], theirs.coef_[0], rtol=1e-4, atol=1e-5)


def test_separable_classes_with_little_ridge_converge():
    rows, W, _, _ = problem(1)
    y = np.where(rows.Phi[:, :1] > 0, 1.0, -1.0)
    separable = FRows(rows.Phi, y, rows.penalty)
    alpha = newton_step(separable, W, np.full(2, 1e-8), get_loss("logistic"), np.zeros((4, 1, 2)))
    margins = y * (rows.Phi @ alpha[:, 0])
    assert (margins[W > 0] > 1).all()  # a tiny ridge lets the margins of all rows with weight grow


def test_not_converging_is_said(monkeypatch):
    rows, W, regs, _ = problem(1)
    monkeypatch.setattr(_f_convex, "NEWTON_ROUNDS", 1)
    with pytest.warns(ConvergenceWarning, match="gradient of .* consider a larger reg_f"):
        newton_step(rows, W, regs, get_loss("logistic"), np.zeros((4, 1, 2)))
