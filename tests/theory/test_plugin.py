"""The bound of a fitted model: constants, terms, blame, rows needed; and the variant that is a true statement."""

from __future__ import annotations

import numpy as np
import pytest

from covshift.losses import Huber, get_loss
from covshift.theory import a_priori_bound, loss_constants, plugin_bound


def fitted(seed=0, n=80, n_target=60, scale=0.01):
    """Small constants, so that the bound can be made non-vacuous by more rows."""
    rng = np.random.default_rng(seed)
    return dict(
        J_hat=0.02 - 1.0,
        C=1.1,
        radius_f=scale,
        radius_g=0.5,
        Phi=rng.uniform(0, 1, (n, 4)),
        Psi_source=rng.uniform(0, 1, (n, 3)),
        Psi_target=rng.uniform(0, 1, (n_target, 3)),
        y=rng.uniform(-1, 1, n),
        loss=get_loss("squared"),
        factor=0.1367,
    )


@pytest.mark.parametrize("shrink", ["zero", "one"])
@pytest.mark.parametrize("tight", [True, False])
def test_terms_sum_to_the_value_and_the_largest_is_blamed(shrink, tight):
    b = plugin_bound(**fitted(), shrink=shrink, tight=tight)
    assert b.value == pytest.approx(sum(b.terms.values()), rel=1e-12)
    assert b.terms[b.blame] == max(b.terms.values())
    assert b.terms["constant"] == 1.1 and b.terms["objective"] == -0.98
    assert b.vacuous == (b.value >= 0.5)
    assert "not a 1 - delta statement" in b.note


def test_constants_are_those_of_the_class():
    k = fitted(scale=2.0)
    b = plugin_bound(**k)
    f_max = 2.0 * np.linalg.norm(k["Phi"], axis=1).max()
    reach = f_max + np.abs(k["y"]).max()
    assert b.constants["M"] == pytest.approx(0.1367 * reach**2, rel=1e-6)
    assert b.constants["L"] == pytest.approx(0.1367 * 2 * reach, rel=1e-5)
    rows = np.vstack([k["Psi_source"], k["Psi_target"]])
    assert b.constants["G"] == pytest.approx(max(1.0, 0.5 * np.linalg.norm(rows, axis=1).max()))
    assert plugin_bound(**k, shrink="one").constants["G"] == pytest.approx(
        1 + 0.5 * np.linalg.norm(rows, axis=1).max()
    )


def test_n_needed_is_where_repeated_rows_first_say_something():
    k = fitted()
    b = plugin_bound(**k)
    assert b.vacuous and np.isfinite(b.n_needed)

    def at(copies):
        repeated = {name: np.repeat(k[name], copies, axis=0) for name in ("Phi", "Psi_source", "Psi_target", "y")}
        return plugin_bound(**(k | repeated)).value

    # bound(t copies) - fixed terms = (bound(1) - fixed) / sqrt t, checked on real repeated rows
    fixed = b.terms["objective"] + b.terms["constant"]
    assert at(9) - fixed == pytest.approx((b.value - fixed) / 3, rel=1e-9)
    copies = b.n_needed / 80
    assert fixed + (b.value - fixed) / np.sqrt(copies) <= 0.5
    assert fixed + (b.value - fixed) / np.sqrt((b.n_needed - 1) / 80) > 0.5


def test_no_number_of_rows_helps_a_vacuous_objective():
    assert plugin_bound(**(fitted() | {"J_hat": -0.4})).n_needed == np.inf


def test_loss_constants_in_closed_form():
    assert loss_constants(get_loss("squared"), 2.0, -1.0, 3.0) == pytest.approx((25.0, 10.0), rel=2e-6)
    assert loss_constants(get_loss("absolute", scale=2.0), 2.0, -1.0, 1.0) == pytest.approx((1.5, 0.5), rel=2e-6)
    assert loss_constants(Huber(), 10.0, -1.0, 1.0)[1] == pytest.approx(1.345, rel=2e-6)
    M, L = loss_constants(get_loss("tukey"), 20.0, -1.0, 1.0)
    assert M == 1.0 and L == pytest.approx(96 / (25 * np.sqrt(5)) / 4.685, rel=2e-4)
    M, L = loss_constants(get_loss("welsch"), 50.0, 0.0, 0.0)
    assert M == pytest.approx(1.0) and L == pytest.approx(np.sqrt(2 / np.e) / 2.9846, rel=2e-4)
    assert loss_constants(get_loss("hinge"), 2.0, -1.0, 1.0) == pytest.approx((3.0, 1.0), rel=2e-6)
    M, L = loss_constants(get_loss("logistic"), 2.0, -1.0, 1.0, factor=1 / np.log(2))
    assert M == pytest.approx(np.log1p(np.exp(2)) / np.log(2)) and L == pytest.approx(
        1 / (1 + np.exp(-2)) / np.log(2), rel=1e-5
    )


def one_step_by_hand(Phi, Psi_source, Psi_target, y, reg_f, reg_g, rounds=5):
    """Algorithm 1 with the squared loss, m = 1, in plain linear algebra."""
    n = len(y)
    H, h = Psi_source.T @ Psi_source / n, Psi_target.mean(axis=0)
    l = np.zeros(n)
    for _ in range(rounds):
        u = Psi_source.T @ l / n
        beta = np.maximum(np.linalg.solve(H + np.outer(u, u) + reg_g * np.eye(len(h)), h), 0.0)
        w = Psi_source @ beta
        alpha = np.linalg.solve(Phi.T @ (w[:, None] * Phi) + reg_f * n * np.eye(Phi.shape[1]), Phi.T @ (w * y))
        l = (Phi @ alpha - y) ** 2
    J_hat = np.mean(l * w) ** 2 + np.mean(w**2) - 2 * np.mean(Psi_target @ beta)
    return alpha, beta, J_hat


def test_the_valid_bound_holds_and_its_radii_are_never_left():
    """Source uniform on [0, 1], target density 2x: C = E r^2 = 4/3; noise bounded, so y is."""
    grid = np.linspace(0, 1, 2001)
    centers = np.linspace(0, 1, 5)

    def features(x):
        return np.exp(-((x[:, None] - centers) ** 2) / 0.18)

    kappa = np.linalg.norm(features(grid), axis=1).max()
    reg_f, reg_g, n = 0.1, 0.5, 200
    loss = get_loss("squared")
    factor = loss.domination()["tukey"]
    tukey = get_loss("tukey")
    B_g = kappa / reg_g
    G = B_g * kappa
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, x_target = rng.uniform(size=n), np.sqrt(rng.uniform(size=n))
        y = np.sin(3 * x) + rng.uniform(-0.3, 0.3, n)
        alpha, beta, J_hat = one_step_by_hand(features(x), features(x), features(x_target), y, reg_f, reg_g)
        assert np.linalg.norm(beta) <= B_g
        assert np.linalg.norm(alpha) <= np.sqrt(G * 1.3**2 / reg_f)
        b = a_priori_bound(
            J_hat=J_hat,
            C_max=4 / 3,
            loss=loss,
            y_min=-0.3,
            y_max=1.3,
            kappa_f=kappa,
            kappa_g=kappa,
            reg_f=reg_f,
            reg_g=reg_g,
            n_source=n,
            n_target=n,
            factor=factor,
        )
        noise = np.linspace(-0.3, 0.3, 41)
        f = features(grid) @ alpha
        risk = np.average(tukey.value(f[:, None], np.sin(3 * grid)[:, None] + noise).mean(axis=1), weights=2 * grid)
        assert risk**2 / 2 <= b.value


def test_the_valid_bound_comes_down_with_n_and_is_not_vacuous_in_the_end():
    k = dict(
        J_hat=-0.95, C_max=1.2, loss=get_loss("hinge"), y_min=-1, y_max=1, kappa_f=1, kappa_g=1, reg_f=1, reg_g=1
    )
    values = [a_priori_bound(**k, n_source=n, n_target=n).value for n in (10**3, 10**5, 10**7)]
    assert values[0] > values[1] > values[2]
    assert not a_priori_bound(**k, n_source=10**7, n_target=10**7).vacuous


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 0.0}, r"delta=0\.0"),
        ({"C": -1.0}, r"C=-1\.0: expected a number in \[0"),
        ({"radius_f": float("inf")}, r"radius_f=inf: this f lies in no ball.*use a linear-in-parameter model"),
        ({"radius_g": -1.0}, r"radius_g=-1\.0"),
        ({"J_hat": float("nan")}, r"J_hat=nan"),
        ({"shrink": "two"}, r"shrink='two': expected one of 'zero', 'one'"),
        ({"loss": get_loss("cross_entropy")}, r"loss='cross_entropy' takes one score a class.*use a binary loss"),
    ],
)
def test_bad_input_of_the_plugin_bound(change, message):
    with pytest.raises(ValueError, match=message):
        plugin_bound(**(fitted() | change))


def test_bad_input_of_the_valid_bound():
    k = dict(
        J_hat=0.1, C_max=1.2, loss=get_loss("hinge"), y_min=-1, y_max=1, kappa_f=1, kappa_g=1, reg_f=1, reg_g=1,
        n_source=10, n_target=10,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"C_max=0\.5: expected a number in \[1"):
        a_priori_bound(**(k | {"C_max": 0.5}))
    with pytest.raises(ValueError, match=r"reg_g=0: expected a number in \(0"):
        a_priori_bound(**(k | {"reg_g": 0}))
    with pytest.raises(ValueError, match=r"y_min=2 is above y_max=1"):
        a_priori_bound(**(k | {"y_min": 2}))
