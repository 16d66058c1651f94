"""Every loss of the registry: derivative, range, domination, IRLS, dtypes, messages."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from covshift.losses import LOSSES, CrossEntropy, Huber, Squared, Tukey, Welsch, ZeroOne, get_loss

REGRESSION = [name for name, loss in LOSSES.items() if loss.task == "regression"]
MARGIN = [name for name, loss in LOSSES.items() if loss.task == "classification"]
IRLS = [name for name, loss in LOSSES.items() if loss.has_irls]
SCALES = [0.37, 1.0, 4.2]


def instances(names):
    """Every loss at several scales (and Huber with a small delta, where the linear part decides)."""
    scaled = [(n, s) for n in names for s in (SCALES if LOSSES[n].task == "regression" else [1.0])]
    return [get_loss(n, scale=s) for n, s in scaled] + [Huber(scale=s, delta=0.05) for n, s in scaled if n == "huber"]


def label(loss):
    return repr(loss)


def sample(loss, n=400, seed=0):
    rng = np.random.default_rng(seed)
    if loss.task == "regression":
        return 5.0 * rng.standard_cauchy(n), rng.standard_normal(n)
    if loss.task == "classification":
        return 3.0 * rng.standard_normal(n), rng.choice([-1.0, 1.0], n)
    return 3.0 * rng.standard_normal((n, 4)), rng.integers(0, 4, n)


@pytest.mark.parametrize("loss", instances(LOSSES), ids=label)
def test_derivative_equals_finite_differences(loss):
    f, y = sample(loss)
    f = np.clip(f, -50, 50)
    h = 1e-5
    if loss.task == "multiclass":
        step = np.zeros_like(f)
        numeric = np.empty_like(f)
        for k in range(f.shape[1]):
            step[:] = 0
            step[:, k] = h
            numeric[:, k] = (loss.value(f + step, y) - loss.value(f - step, y)) / (2 * h)
        assert np.allclose(loss.derivative(f, y), numeric, rtol=1e-6, atol=1e-8)
        return
    # away from the kinks: no kink lies within 10 h of the point
    kinks = {
        "hinge": np.abs(1 - y * f),
        "zero_one": np.abs(f),
        "absolute": np.abs(f - y),
    }.get(loss.name, np.full_like(f, np.inf))
    smooth = kinks > 10 * h
    assert smooth.mean() > 0.9
    numeric = (loss.value(f + h, y) - loss.value(f - h, y)) / (2 * h)
    scale = getattr(loss, "scale", 1.0)
    assert np.allclose(loss.derivative(f, y)[smooth], numeric[smooth], rtol=1e-5, atol=1e-4 / scale**2)


@pytest.mark.parametrize("loss", instances(LOSSES), ids=label)
def test_values_stay_in_the_declared_range_and_the_bound_is_reached(loss):
    f, y = sample(loss, n=5000)
    value = loss.value(f, y)
    assert value.shape == y.shape and np.all(value >= 0) and np.all(value <= loss.bound)
    far = (
        loss.value(np.array([1e9 * getattr(loss, "scale", 1.0)]), np.array([-1.0]))
        if loss.task != "multiclass"
        else None
    )
    if far is not None:
        assert far[0] == loss.bound if np.isfinite(loss.bound) else far[0] > 1e6


def pairs_on_a_grid(loss, bounded_name):
    """(bounded, own) values on a grid that reaches every margin and every residual that matters."""
    if bounded_name != "zero_one":
        s = loss.scale
        t = np.concatenate([np.geomspace(1e-5, 1e4, 20001), np.linspace(0, 15, 20001)]) * s
        r = np.concatenate([-t, t])
        return get_loss(bounded_name, scale=s).value(r, 0.0), loss.value(r, 0.0)
    if loss.task == "multiclass":
        rng = np.random.default_rng(3)
        f = rng.standard_normal((20000, 3)) * 10.0 ** rng.uniform(-6, 1, (20000, 1))
        f[:100] = 0.0  # ties
        y = rng.integers(0, 3, 20000)
        own = f[np.arange(20000), y]
        others = np.where(np.eye(3, dtype=bool)[y], -np.inf, f).max(axis=1)
        return (own <= others).astype(float), loss.value(f, y)
    z = np.concatenate([np.linspace(-20, 20, 40001), [-1e-12, 0.0, 1e-12]])
    return ZeroOne().value(z, 1.0), loss.value(z, 1.0)


DOMINATIONS = [(loss, bounded) for loss in instances(LOSSES) for bounded in loss.domination()]


@pytest.mark.parametrize(("loss", "bounded_name"), DOMINATIONS, ids=str)
def test_domination_holds_and_its_factor_is_not_larger_than_needed(loss, bounded_name):
    factor = loss.domination()[bounded_name]
    bounded, own = pairs_on_a_grid(loss, bounded_name)
    assert np.all(bounded <= factor * own * (1 + 1e-11) + 1e-15)
    if loss.task != "multiclass":
        # 0.1 % less is refuted by some point of the same grid
        assert np.any(bounded > 0.999 * factor * own)
    else:
        tie = np.zeros((1, 2))
        assert 0.999 * factor * CrossEntropy().value(tie, np.array([0]))[0] < 1.0


def test_every_unbounded_regression_loss_dominates_tukey_and_welsch_and_every_classifier_zero_one():
    for name in REGRESSION:
        assert {"tukey", "welsch"} <= set(LOSSES[name]().domination())
    for name in [*MARGIN, "cross_entropy", "squared"]:
        assert "zero_one" in LOSSES[name]().domination()


def test_factors_of_the_method_page():
    rho, c = 4.685, 2.9846
    assert Squared().domination()["tukey"] == pytest.approx(3 / rho**2, rel=1e-12)
    assert Squared().domination()["welsch"] == pytest.approx(1 / c**2, rel=1e-12)
    assert get_loss("absolute").domination()["tukey"] * rho == pytest.approx(1.24282, abs=1e-5)
    assert get_loss("absolute").domination()["welsch"] * c == pytest.approx(0.63818, abs=1e-5)
    assert Huber().domination()["tukey"] == pytest.approx(0.2734, abs=5e-5)
    assert get_loss("logistic").domination()["zero_one"] == pytest.approx(1 / np.log(2))


def test_a_huber_loss_with_vanishing_delta_needs_the_factor_of_the_absolute_loss():
    delta = 1e-4
    absolute = get_loss("absolute").domination()
    for name, factor in Huber(delta=delta).domination().items():
        assert factor * delta == pytest.approx(absolute[name], rel=1e-3)


def test_the_plain_square_dominates_tukey_only_from_rho_s_of_sqrt_3():
    r = np.geomspace(1e-4, 10, 5001)
    rho = 4.685
    for rho_s, holds in [(1.70, False), (np.sqrt(3) + 1e-9, True)]:
        tukey = Tukey(scale=rho_s / rho).value(r, 0.0)
        assert np.all(tukey <= Squared().value(r, 0.0)) == holds


def test_cross_entropy_and_logistic_in_nats_do_not_dominate_the_zero_one_loss():
    tie = CrossEntropy().value(np.zeros((1, 2)), np.array([0]))[0]
    assert tie < 1.0 <= tie / np.log(2)
    assert get_loss("logistic").value(0.0, 1.0) < ZeroOne().value(0.0, 1.0)


def test_squared_loss_of_labels_is_one_minus_margin_squared():
    f = np.linspace(-3, 3, 101)[:, None]
    y = np.array([-1.0, 1.0])
    assert np.allclose(Squared().value(f, y), (1 - y * f) ** 2, rtol=1e-13)


@pytest.mark.parametrize("loss", instances(IRLS), ids=label)
def test_irls_weight_is_nonnegative_and_gives_the_derivative(loss):
    f, y = sample(loss)
    omega = loss.irls_weight(f, y)
    assert np.all(omega >= 0) and np.all(np.isfinite(omega))
    assert np.allclose(2 * omega * (f - y), loss.derivative(f, y), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("loss", instances(IRLS), ids=label)
def test_irls_fixed_point_equals_a_generic_minimiser(loss):
    rng = np.random.default_rng(1)
    n, reg = 80, 1e-3 / loss.scale**2
    x = rng.uniform(-1, 1, n)
    Phi = np.stack([np.ones(n), x, x**2], axis=1)
    y = loss.scale * (1.0 + 2.0 * x + 0.5 * rng.standard_t(2, n))
    w = rng.uniform(0.2, 2.0, n)
    alpha = np.linalg.solve(Phi.T @ Phi, Phi.T @ y)
    start = alpha.copy()
    for _ in range(500):
        omega = loss.irls_weight(Phi @ alpha, y)
        A = Phi.T @ ((w * omega)[:, None] * Phi) + reg * n * np.eye(3)
        alpha = np.linalg.solve(A, Phi.T @ (w * omega * y))

    def objective(a):
        f = Phi @ a
        return np.mean(w * loss.value(f, y)) + reg * a @ a, Phi.T @ (w * loss.derivative(f, y)) / n + 2 * reg * a

    generic = minimize(objective, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-12})
    assert np.linalg.norm(objective(alpha)[1]) < 1e-9 / loss.scale
    assert np.allclose(alpha, generic.x, atol=2e-5 * loss.scale)


def test_irls_weights_at_zero_residual_keep_the_constant():
    assert Tukey().irls_weight(0.0, 0.0) == pytest.approx(1 / 7.3163, rel=1e-4)
    assert Welsch().irls_weight(0.0, 0.0) == pytest.approx(2.9846**-2)


@pytest.mark.parametrize("loss", instances(LOSSES), ids=label)
def test_float32_stays_float32_and_agrees_with_float64(loss):
    f, y = sample(loss)
    f = np.clip(f, -20, 20)
    f32 = f.astype(np.float32)
    y32 = y if loss.task == "multiclass" else y.astype(np.float32)
    calls = [loss.value, loss.derivative] + ([loss.irls_weight] if loss.has_irls else [])
    for call in calls:
        low = call(f32, y32)
        assert low.dtype == np.float32
        if loss.name not in ("hinge", "zero_one", "absolute"):
            assert np.allclose(
                low, call(f32.astype(float), y), rtol=1e-4, atol=1e-4 / getattr(loss, "scale", 1.0) ** 2
            )


@pytest.mark.parametrize("loss", instances(LOSSES), ids=label)
def test_candidates_broadcast_column_by_column_and_inputs_are_not_written(loss):
    f, y = sample(loss, n=30)
    F = np.stack([f, 2 * f, -f], axis=-1)
    Y = y if loss.task == "multiclass" else y[:, None]
    F.setflags(write=False)
    Y.setflags(write=False)
    for call in [loss.value, loss.derivative] + ([loss.irls_weight] if loss.has_irls else []):
        together = call(F, Y)
        for j in range(3):
            assert np.array_equal(together[..., j], call(np.ascontiguousarray(F[..., j]), y))


@pytest.mark.parametrize("loss", instances(LOSSES), ids=label)
def test_integer_input_is_computed_in_double_precision(loss):
    if loss.task == "multiclass":
        f, y = np.array([[1, 0], [0, 3]]), np.array([1, 1])
    else:
        f, y = np.array([2, -1, 1]), np.array([1, 1, -1])
    assert loss.value(f, y).dtype == np.float64
    assert np.array_equal(loss.value(f, y), loss.value(f.astype(float), y))


@pytest.mark.parametrize("name", ["tukey", "welsch", "huber", "absolute", "logistic", "hinge", "cross_entropy"])
def test_huge_scores_overflow_nowhere(name):
    loss = get_loss(name)
    with np.errstate(over="raise", invalid="raise"):
        if loss.task == "multiclass":
            value = loss.value(np.array([[1e300, -1e300]]), np.array([1]))
        else:
            value = loss.value(np.array([1e200, -1e200]), np.array([1.0, 1.0]))
            assert np.all(np.isfinite(loss.derivative(np.array([1e200]), np.array([-1.0]))))
    assert np.all(value >= 0)


def test_messages_name_argument_value_and_way_out():
    with pytest.raises(ValueError, match=r"loss='squard': expected one of 'squared', .*did you mean 'squared'"):
        get_loss("squard")
    with pytest.raises(ValueError, match=r"scale=0\.0: expected a number in \(0, 1\.79769e\+308\]"):
        get_loss("tukey", scale=0.0)
    for broken in (float("nan"), float("inf"), -1.0):
        with pytest.raises(ValueError, match=r"scale=(nan|inf|-1\.0): expected"):
            get_loss("squared", scale=broken)
    with pytest.raises(ValueError, match=r"delta=-1: expected"):
        get_loss("huber", delta=-1)
    with pytest.raises(ValueError, match=r"scale=2\.0 is not a constant of loss='hinge', which takes no constants"):
        get_loss("hinge", scale=2.0)
    with pytest.raises(TypeError, match=r"loss='hinge' has no IRLS weight; use squared, huber"):
        get_loss("hinge").irls_weight(0.0, 1.0)
