"""Rademacher complexities against enumeration of all signs and brute-force suprema."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from covshift.theory import rademacher_complexity

MODELS = ["signed", "nonnegative", "nonnegative_pm", "one_plus", "one_plus_pm"]


def features(n=8, b=3, seed=0):
    return np.exp(-np.random.default_rng(seed).uniform(0, 3, (n, b)))


def all_signs(n):
    return np.array(list(product([-1.0, 1.0], repeat=n)))


def brute_force(Phi, B, model, n_directions=4000):
    """E_sigma sup over many coefficients of the ball (a lower bound of the supremum, near it for b = 3)."""
    n, b = Phi.shape
    rng = np.random.default_rng(1)
    beta = rng.standard_normal((n_directions, b))
    beta *= B * rng.uniform(0, 1, (n_directions, 1)) ** 0.2 / np.linalg.norm(beta, axis=1, keepdims=True)
    sphere = B * beta / np.linalg.norm(beta, axis=1, keepdims=True)
    beta = np.vstack([beta, sphere, np.zeros((1, b))])
    if model.startswith("nonnegative"):
        beta = np.abs(beta) * (rng.uniform(size=beta.shape) < 0.7)
    H = Phi @ beta.T
    if model.startswith("one_plus"):
        H = np.maximum(1.0 + H, 0.0)
    if model.endswith("_pm"):
        H = np.hstack([H, -H])
    return float((all_signs(n) @ H / n).max(axis=1).mean())


@pytest.mark.parametrize("model", ["signed", "nonnegative", "nonnegative_pm"])
def test_monte_carlo_is_the_expected_supremum_over_the_class(model):
    Phi, B = features(), 1.7
    exact = brute_force(Phi, B, model)
    value = rademacher_complexity(Phi, B, "monte_carlo", model=model, draws=60000, random_state=0)
    # the directions miss the maximiser by up to a few per cent, and never exceed it
    assert exact <= value * 1.01
    assert value <= exact * 1.05


@pytest.mark.parametrize("model", ["one_plus", "one_plus_pm"])
@pytest.mark.parametrize("B", [0.3, 5.0])
def test_shifted_classes_are_bounded_from_above(model, B):
    Phi = features() - 0.4  # signs in the features, so that the clip is active
    value = rademacher_complexity(Phi, B, "monte_carlo", model=model, draws=60000, random_state=0)
    assert brute_force(Phi, B, model) <= value * 1.01


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(5))
def test_the_closed_form_is_never_below_monte_carlo(model, seed):
    Phi = features(n=60, b=7, seed=seed)
    bound = rademacher_complexity(Phi, 2.0, model=model)
    assert rademacher_complexity(Phi, 2.0, "monte_carlo", model=model, draws=4000, random_state=seed) <= bound * 1.01


def test_signed_bound_is_the_formula_of_the_api():
    Phi = features(n=50, b=4)
    expected = 3.0 * np.sqrt(np.mean(np.sum(Phi**2, axis=1)) / 50)
    assert rademacher_complexity(Phi, 3.0) == pytest.approx(expected, rel=1e-13)


def test_one_feature_in_closed_form():
    # v = mean of n signs times one: E|v| is the mean absolute deviation of a binomial
    n = 10
    mean_abs = np.abs(all_signs(n).mean(axis=1)).mean()
    value = rademacher_complexity(np.ones((n, 1)), 2.0, "monte_carlo", draws=200000, random_state=3)
    assert value == pytest.approx(2.0 * mean_abs, rel=0.01)


def test_nonnegative_coefficients_alone_would_understate_the_lemma():
    # one non-negative feature: |v| against v_+, exactly twice
    Phi = np.abs(features(n=9, b=1))
    half = rademacher_complexity(Phi, 1.0, "monte_carlo", model="nonnegative", draws=100000, random_state=0)
    full = rademacher_complexity(Phi, 1.0, "monte_carlo", model="nonnegative_pm", draws=100000, random_state=0)
    assert full == pytest.approx(2 * half, rel=0.02)


@pytest.mark.parametrize("method", ["bound", "monte_carlo"])
def test_complexity_falls_as_one_over_root_n(method):
    values = [
        rademacher_complexity(np.ones((n, 1)), 1.0, method, draws=20000, random_state=0) for n in (100, 400, 1600)
    ]
    assert np.allclose(np.array(values[:-1]) / values[1:], 2.0, rtol=0.03)


def test_same_seed_same_bits():
    Phi = features(n=30)
    first, again = (rademacher_complexity(Phi, 1.0, "monte_carlo", draws=50, random_state=5) for _ in range(2))
    assert first == again


def test_messages():
    Phi = features()
    with pytest.raises(ValueError, match=r"method='montecarlo': expected one of .* did you mean 'monte_carlo'"):
        rademacher_complexity(Phi, 1.0, "montecarlo")
    with pytest.raises(ValueError, match=r"model='positive'"):
        rademacher_complexity(Phi, 1.0, model="positive")
    with pytest.raises(ValueError, match=r"norm_bound=-1\.0: expected a number in \[0"):
        rademacher_complexity(Phi, -1.0)
    with pytest.raises(ValueError, match=r"Phi has shape \(8,\): expected \(n, b\)"):
        rademacher_complexity(Phi[:, 0], 1.0)
