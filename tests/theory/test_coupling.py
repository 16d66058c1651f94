"""g = r - c lbar against a generic minimiser and its optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from covshift.theory import coupled_weights


def problem(seed, n=25):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.1, 1, n)
    r = rng.gamma(0.5, 2.0, n)
    return rng.uniform(0, 1.5, n), r / (p @ r / p.sum()), p / p.sum()


def objective(g, lbar, r, p, m):
    return (p @ (lbar * g)) ** 2 + m**2 * (p @ (g - r) ** 2)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("nonnegative", [True, False])
def test_no_generic_minimiser_does_better(seed, nonnegative):
    lbar, r, p = problem(seed)
    m = 0.7
    w = coupled_weights(lbar, r, p, m, nonnegative=nonnegative)
    assert w.J == pytest.approx(objective(w.g, lbar, r, p, m), rel=1e-12)
    found = minimize(
        lambda g: (objective(g, lbar, r, p, m), 2 * (p @ (lbar * g)) * p * lbar + 2 * m**2 * p * (g - r)),
        np.ones_like(r),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0 if nonnegative else None, None)] * len(r),
        options={"ftol": 1e-15, "gtol": 1e-12, "maxiter": 5000},
    )
    assert w.J <= found.fun * (1 + 1e-12)
    assert np.allclose(w.g, found.x, atol=1e-4)
    assert m**2 * w.c == pytest.approx(p @ (lbar * w.g), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_closed_minimum_and_profile_of_the_unrestricted_problem(seed):
    lbar, r, p = problem(seed)
    m = 1.3
    w = coupled_weights(lbar, r, p, m, nonnegative=False)
    R, s = p @ (lbar * r), p @ lbar**2
    assert w.J == pytest.approx(R**2 / (1 + s / m**2), rel=1e-12)


def test_without_loss_the_weights_are_the_ratio():
    lbar, r, p = problem(0)
    assert np.allclose(coupled_weights(0 * lbar, r, p).g, r)


def test_the_weight_falls_where_the_loss_is_large():
    x = np.linspace(0, 1, 101)
    lbar, r = np.where(x > 0.5, 0.9, 0.1), np.ones(101)
    g = coupled_weights(lbar, r, np.ones(101)).g
    assert g[x > 0.5].max() < g[x < 0.5].min() < 1.0
