"""Every simulation at a small size: what it claims, and that it would notice if the claim were false."""

from __future__ import annotations

import numpy as np
import pytest

from covshift.experiments.theory import _map, _rates, _report, _theorem1, _violations
from covshift.experiments.theory._world import WORLDS
from covshift.losses import Logistic
from covshift.theory import coupled_weights


def test_deviation_of_the_finite_class_equals_plain_loops():
    members = _violations.finite_class(WORLDS["well specified"])
    world, n = members.world, 30
    exact = _violations.exact_objective(members)
    found = _violations.largest_deviations(members, n, 2, np.random.default_rng(0))
    x, y, x_target = world.draw(n, 2, np.random.default_rng(0))
    for i in range(2):
        deviations = []
        for a, alpha in enumerate(members.alphas):
            l = world.factor * (world.phi(x[i]) @ alpha - y[i]) ** 2
            for b, beta in enumerate(members.betas):
                g = world.psi(x[i]) @ beta
                J_hat = np.mean(l * g) ** 2 + np.mean(g**2) - 2 * np.mean(world.psi(x_target[i]) @ beta)
                deviations.append(exact[a, b] - J_hat)
        assert found[i] == pytest.approx(max(deviations), rel=1e-9)


def test_exact_objective_is_the_limit_of_the_empirical_one():
    members = _violations.finite_class(WORLDS["well specified"])
    deviation = _violations.largest_deviations(members, 300_000, 1, np.random.default_rng(1))
    assert abs(deviation[0]) < 0.1


def test_the_lemma_is_never_broken_and_a_hundredth_of_it_is():
    rows = _violations.violation_rows(0, draws=300)
    value = {(row.method, row.metric): row.value for row in rows}
    assert len(rows) == _violations.ROWS
    for method in _violations.METHODS:
        for delta in _violations.DELTAS:
            assert value[method, f"violations, delta={delta:g}"] <= delta * 300
            assert value[method, f"violations of a hundredth, delta={delta:g}"] > 0
            assert value[method, f"smallest bound over deviation, delta={delta:g}"] > 1
        assert (
            value["tight", "median bound over deviation, delta=0.05"]
            < value["printed", "median bound over deviation, delta=0.05"]
        )


def test_constants_of_the_finite_class_are_sups():
    members = _violations.finite_class(WORLDS["well specified"])
    x, y, _ = members.world.draw(20000, 1, np.random.default_rng(0))
    l = members.world.factor * (members.world.phi(x[0]) @ members.alphas.T - y[0][:, None]) ** 2
    constants = members.constants()
    assert 0.7 * constants["M"] < max(1.0, l.max()) <= constants["M"]
    assert (members.world.psi(x[0]) @ members.betas.T).max() <= constants["G"]


@pytest.mark.parametrize("case", _theorem1.CASES, ids="-".join)
def test_theorem_1_holds_for_every_loss_and_kind_of_g(case):
    rows = _theorem1.theorem1_rows(case, seed=0, draws=200)
    value = {(row.method, row.metric): row.value for row in rows}
    assert len(rows) == _theorem1.ROWS
    for kind in _theorem1.G_KINDS:
        assert value[kind, "violations"] == 0
        assert value[kind, "smallest J over R^2 / 2"] >= 1 - 1e-9
    # the unrestricted minimiser: J = R^2 / (1 + E lbar^2), so the ratio is known from the loss alone
    at = value["r - c lbar", "E lbar^2 there"]
    assert value["r - c lbar", "smallest J over R^2 / 2"] == pytest.approx(2 / (1 + at), rel=1e-9)


def test_a_factor_that_is_too_small_is_noticed(monkeypatch):
    monkeypatch.setattr(Logistic, "domination", lambda self: {"zero_one": 0.5})
    rows = _theorem1.theorem1_rows(("logistic", "zero_one"), seed=0, draws=200)
    assert sum(row.value for row in rows if row.metric == "violations") > 0


def test_equality_needs_a_loss_of_m_everywhere():
    x, p = _theorem1.PAIR.quadrature(n=301, reach=8.0)
    r = _theorem1.PAIR.ratio(x)
    for level in (0.1, 0.5, 1.0):
        w = coupled_weights(np.full_like(x, level), r, p, nonnegative=False)
        assert w.J / (level**2 / 2) == pytest.approx(2 / (1 + level**2), rel=1e-9)


def test_slope_finds_a_power_law():
    rng = np.random.default_rng(0)
    by_n = {n: 3.0 * n**-0.7 * rng.lognormal(0, 0.2, 50) for n in (50, 200, 800, 3200)}
    middle, low, high = _report.slope(by_n)
    assert low < -0.7 < high and middle == pytest.approx(-0.7, abs=0.05)


@pytest.mark.parametrize("name", list(WORLDS))
def test_excess_of_the_objective_falls_at_least_as_fast_as_the_theorem_says(name):
    sizes = (50, 400, 3200)
    rows = [*_rates.rate_rows(name, range(12), sizes), *_rates.constant_rows(name, sizes)]
    draws, constants = _report.rate_columns(rows, name)
    _, low, high = _report.slope(draws["J_UB - min J_UB"])
    assert high < -0.5
    start = np.sqrt(2) * constants["R_UB(f*)"][50]
    for n in sizes:
        assert np.all(draws["J_UB - min J_UB"][n] >= -1e-12)
        assert np.all(draws["R"][n] <= start + constants["rate, tight"][n])
        assert np.all(draws["R"][n] <= 1.0)
        assert constants["rate, tight"][n] < constants["rate, printed"][n]
    excess = draws["R_UB - R_UB(f*)"][3200].mean()
    floor = constants["R_UB(f_J)"][50] - constants["R_UB(f*)"][50]
    if name == "well specified":
        assert abs(floor) < 1e-9 and excess < 1e-3
    else:
        assert floor > 0.03 and excess > 0.5 * floor


def test_the_joint_minimiser_has_the_lower_objective_and_not_always_the_lower_risk():
    rows = _rates.remark_rows("misspecified", range(20))
    found = _report.cells(rows, "remark/misspecified")
    J_hat, R_UB = (found["joint", m, 150] - found["two-step", m, 150] for m in ("J_hat", "R_UB"))
    assert np.all(J_hat <= 1e-9)
    assert 0.0 < (R_UB < 0).mean() < 1.0


def test_map_g_step_equals_a_direct_solve():
    rng = np.random.default_rng(0)
    Psi = rng.uniform(0, 1, (40, 6))
    H, h, u = Psi.T @ Psi / 40, rng.uniform(0, 1, 6), rng.uniform(0, 1, (6, 3))
    for k in (0.0, 1.0, 100.0):
        found = _map.solve_g(H, h, u, 0.1, k)
        for j in range(3):
            direct = np.linalg.solve(H + 0.1 * np.eye(6) + k * np.outer(u[:, j], u[:, j]), h)
            assert np.allclose(found[:, j], np.maximum(direct, 0), atol=1e-12)


def test_map_f_step_in_rotated_features_equals_the_full_basis():
    profile = "target, x = 1.8"
    sample = _map.draw(profile, "flexible", 150, 0)
    rng = np.random.default_rng(0)
    W = rng.uniform(0.1, 2.0, (150, len(_map.REGS_F)))
    found = sample.Z @ _map.solve_f(sample.Z, sample.y, W, _map.REGS_F)
    assert sample.Z.shape[1] < 40
    for j, reg in enumerate(_map.REGS_F):
        Psi, w = sample.Psi, W[:, j]
        alpha = np.linalg.solve(Psi.T @ (w[:, None] * Psi) + 150 * reg * np.eye(50), Psi.T @ (w * sample.y))
        assert np.allclose(found[:, j], Psi @ alpha, atol=1e-7)


def test_map_without_the_rank_one_term_is_the_loss_free_fit():
    sample = _map.draw("equal everywhere", "flexible", 150, 1)
    H, h = sample.Psi.T @ sample.Psi / 150, sample.Psi_target.mean(axis=0)
    free = np.repeat(sample.Psi @ _map.solve_g(H, h, np.zeros((50, 1)), 0.1, 0.0), len(_map.REGS_F), axis=1)
    expected = _map.solve_f(sample.Z, sample.y, free, _map.REGS_F)
    assert np.allclose(_map.one_step(sample, H, h, 0.1, 0.0, None), expected)


def mean_log_ratio(profile, model, n, method, seeds):
    rows = [row for seed in seeds for row in _map.map_rows(profile, model, n, seed)]
    return _report.log_ratios(rows, profile, model, n, _map.METRICS[1])[method].mean()


def test_the_coupling_helps_a_flexible_f_where_the_target_is_noisy_and_hurts_a_line():
    assert mean_log_ratio("target, x = 1.8", "flexible", 2400, "k=10", range(6)) < np.log(0.8)
    assert mean_log_ratio("target, x = 1.8", "line", 2400, "k=10", range(6)) > np.log(1.3)


def test_where_noise_is_equal_a_flexible_f_gains_nothing():
    assert abs(mean_log_ratio("equal everywhere", "flexible", 600, "k=10", range(10))) < 0.1
