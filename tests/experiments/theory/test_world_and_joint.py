"""The small world's expectations, and its exact minimisers against generic ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from covshift.experiments.theory import _joint as joint
from covshift.experiments.theory._world import WORLDS, Pair, expected_tukey
from covshift.losses import get_loss

NAMES = list(WORLDS)


def test_the_ratio_is_a_bump_of_the_class_and_has_mean_one():
    for pair in (Pair(), Pair(1.0, 0.5, 2.0, 0.25)):
        x, p = pair.quadrature()
        r = pair.ratio(x)
        height, centre, width = pair.bump
        assert np.allclose(r, height * np.exp(-((x - centre) ** 2) / (2 * width**2)), rtol=1e-9, atol=1e-300)
        assert p @ r == pytest.approx(1.0, abs=1e-12)
        assert (p * r) @ x == pytest.approx(pair.mu_t, abs=1e-12)
        assert (p * r) @ (x - pair.mu_t) ** 2 == pytest.approx(pair.sd_t**2, rel=1e-10)
    for world in WORLDS.values():
        assert np.allclose(world.psi(x)[:, 0] * world.pair.bump[0], world.pair.ratio(x))


def test_the_constant_of_the_toy_is_that_of_the_method_page():
    x, p = Pair(1.0, 0.5, 2.0, 0.25).quadrature()
    assert p @ Pair(1.0, 0.5, 2.0, 0.25).ratio(x) ** 2 == pytest.approx(14.9, abs=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_tukey_by_quadrature_equals_a_fine_average_over_the_noise(name):
    world = WORLDS[name]
    x = np.linspace(-2, 2, 7)
    F = np.stack([world.f0(x) + shift for shift in (0.0, 0.4, 2.2, 3.0)])
    noise = world.w * (2 * (np.arange(20000) + 0.5) / 20000 - 1)
    y = world.f0(x)[:, None] + noise
    fine = get_loss("tukey", scale=world.scale).value(F[..., None], y).mean(axis=2)
    assert np.allclose(expected_tukey(world, x, F), fine, atol=2e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_factor_makes_the_square_dominate(name):
    world = WORLDS[name]
    r = np.linspace(-6, 6, 5001)
    tukey = get_loss("tukey", scale=world.scale).value(r, 0.0)
    assert np.all(tukey <= world.factor * r**2 + 1e-15)
    assert np.any(tukey > 0.999 * world.factor * r**2 + 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_moments_give_the_empirical_objective_of_the_paper(name):
    world = WORLDS[name]
    moments = joint.sample_moments(world, 70, 3, np.random.default_rng(0))
    x, y, x_target = world.draw(70, 3, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    alpha, beta = rng.standard_normal((3, len(world.centers_f))), rng.uniform(0, 1, (3, 4))
    value = joint.objective(moments, alpha, beta, m=1.3)
    for i in range(3):
        l = world.factor * (world.phi(x[i]) @ alpha[i] - y[i]) ** 2
        g, g_target = world.psi(x[i]) @ beta[i], world.psi(x_target[i]) @ beta[i]
        second = np.mean(g**2) - 2 * np.mean(g_target) + moments.C
        assert value[i] == pytest.approx(np.mean(l * g) ** 2 + 1.3**2 * second, rel=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_population_moments_are_the_limit_of_sample_moments(name):
    world = WORLDS[name]
    exact = joint.population(world)
    sample = joint.sample_moments(world, 400_000, 1, np.random.default_rng(0))
    for part in ("T", "t", "s", "H", "h"):
        assert np.allclose(getattr(sample, part), getattr(exact, part), atol=0.01)


def small_moments(seed=0, draws=5):
    return joint.sample_moments(WORLDS["misspecified"], 40, draws, np.random.default_rng(seed))


@pytest.mark.parametrize("radius", [4.0, 0.7])
def test_g_step_equals_a_generic_constrained_minimiser(radius):
    moments = small_moments()
    u = np.random.default_rng(2).uniform(0, 1, moments.h.shape)
    beta = joint.minimise_g(moments, u, radius, m=0.8)
    assert np.all(beta >= 0) and np.all(np.linalg.norm(beta, axis=1) <= radius * (1 + 1e-9))
    for H, h, ui, found in zip(moments.H, moments.h, u, beta, strict=True):
        A = H + np.outer(ui, ui) / 0.8**2
        generic = minimize(
            lambda b, A=A, h=h: b @ A @ b - 2 * h @ b,
            np.full(4, 0.1),
            jac=lambda b, A=A, h=h: 2 * A @ b - 2 * h,
            method="SLSQP",
            bounds=[(0, None)] * 4,
            constraints={"type": "ineq", "fun": lambda b: radius**2 - b @ b, "jac": lambda b: -2 * b},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert found @ A @ found - 2 * h @ found <= generic.fun + 1e-9
        assert np.allclose(found, generic.x, atol=1e-3)


@pytest.mark.parametrize("radius", [40.0, 0.5])
def test_f_step_equals_a_generic_constrained_minimiser(radius):
    moments = small_moments(seed=3)
    beta = np.random.default_rng(4).uniform(0.1, 1, moments.h.shape)
    alpha = joint.minimise_f(moments, beta, radius)
    assert np.all(np.linalg.norm(alpha, axis=1) <= radius * (1 + 1e-9))
    if radius < 1:
        assert (np.linalg.norm(alpha, axis=1) > 0.999 * radius).sum() >= 3  # the ball binds
    for i in range(len(alpha)):
        P, c = np.einsum("k,kij->ij", beta[i], moments.T[i]), beta[i] @ moments.t[i]
        generic = minimize(
            lambda a, P=P, c=c: a @ P @ a - 2 * c @ a,
            np.zeros(2),
            method="SLSQP",
            constraints={"type": "ineq", "fun": lambda a: radius**2 - a @ a},
            options={"ftol": 1e-15},
        )
        assert alpha[i] @ P @ alpha[i] - 2 * c @ alpha[i] <= generic.fun + 1e-8


def test_no_generic_search_beats_the_joint_minimiser():
    world, moments = WORLDS["misspecified"], small_moments(seed=5, draws=2)
    alpha, beta = joint.minimise_jointly(moments, world, np.random.default_rng(0), starts=8)
    J = joint.objective(moments, alpha, beta)
    rng = np.random.default_rng(1)
    for i in range(2):
        one = joint.Moments(*(getattr(moments, k)[i : i + 1] for k in "TtsHh"), factor=moments.factor, C=moments.C)

        def value(z, one=one):
            return float(joint.objective(one, z[None, :2], z[None, 2:])[0])

        for _ in range(6):
            found = minimize(
                value,
                np.concatenate([rng.uniform(-2, 2, 2), rng.uniform(0, 2, 4)]),
                method="SLSQP",
                bounds=[(None, None)] * 2 + [(0, None)] * 4,
                constraints=[
                    {"type": "ineq", "fun": lambda z: world.radius_f**2 - z[:2] @ z[:2]},
                    {"type": "ineq", "fun": lambda z: world.radius_g**2 - z[2:] @ z[2:]},
                ],
                options={"maxiter": 300, "ftol": 1e-12},
            )
            assert J[i] <= found.fun + 1e-6
