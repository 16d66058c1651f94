"""Every method file runs at the smallest size on every kind of problem, and every row of the grids runs once."""

from __future__ import annotations

import numpy as np
import pytest

from covshift.experiments.contract import Draw
from covshift.experiments.grid import found, load_experiment, method_function
from covshift.experiments.objective import METRIC_OF
from covshift.experiments.problems import toy

pytestmark = pytest.mark.filterwarnings("ignore::covshift.exceptions.OverlapWarning")
SMALL = toy.draw(0, n_source=60, n_target=60, n_eval=50)


def classification(classes):
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(size=(60, 2)), rng.normal(0.5, 1, size=(60, 2))
    y = np.digitize(X[:, 0] + 0.1 * rng.normal(size=60), np.linspace(-1, 1, classes + 1)[1:-1])
    y_target = np.digitize(X_target[:, 0], np.linspace(-1, 1, classes + 1)[1:-1])
    return Draw("classification", X, y, X_target, X_target, y_target, np.exp(X[:, 0] / 2))


DRAWS = {"regression": SMALL, "two classes": classification(2), "three classes": classification(3)}


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("file", found("methods"))
def test_every_file_fits_and_beats_a_constant(file, kind):
    draw = DRAWS[kind]
    fitted = method_function(file)(draw, 0)
    predicted = fitted.predict(draw.X_eval)
    assert predicted.shape == draw.y_eval.shape
    if draw.kind == "classification":
        assert set(predicted) <= set(draw.y)
        assert METRIC_OF[draw.kind][1](predicted, draw.y_eval) < 1 - np.bincount(draw.y_eval).max() / len(predicted)
    else:
        assert np.isfinite(predicted).all()
    assert fitted.weights is not None and fitted.weights.shape == draw.y.shape and (fitted.weights >= 0).all()


@pytest.mark.parametrize("name", ["toy", "benchmark", "panel"])
def test_every_row_of_the_grids_runs_with_its_options(name):
    pytest.importorskip("yaml")
    for method in load_experiment(name).methods:
        options = {key: _thinned(value) for key, value in method.options.items()}
        fitted = method_function(method.file)(SMALL, 0, **options)
        assert np.isfinite(fitted.predict(SMALL.X_eval)).all(), method.name


def _thinned(value):
    """A long grid by its ends and its middle: the options are what is tested, not their number."""
    return [value[0], value[len(value) // 2], value[-1]] if isinstance(value, list) and len(value) > 3 else value


@pytest.mark.parametrize("file", found("methods"))
def test_same_seed_same_bits_and_no_look_at_the_evaluation_rows(file):
    fit = method_function(file)
    blind = Draw(SMALL.kind, SMALL.X, SMALL.y, SMALL.X_target, SMALL.X_eval[:0], SMALL.y_eval[:0], SMALL.true_ratio)
    once, again = fit(SMALL, 4).predict(SMALL.X_eval), fit(blind, 4).predict(SMALL.X_eval)
    assert np.array_equal(once, again)


def test_one_step_with_ulsifs_parameters_uses_them(draw=SMALL):
    widths, regs = (0.2, 0.4, 0.8), (0.01, 0.1, 1.0)
    options = {"bandwidth_f": widths, "bandwidth_g": widths, "reg_f": regs, "reg_g": regs}
    fit = method_function("one_step")
    from covshift.experiments.kernel_iwerm import make_problem, search_ratio

    sigma, reg = search_ratio(make_problem(draw, 0), widths, regs)
    fixed = fit(draw, 0, bandwidth_f=widths, reg_f=regs, bandwidth_g=(sigma,), reg_g=(reg,))
    heuristic = fit(draw, 0, g_from_ulsif=True, **options)
    assert np.array_equal(fixed.predict(draw.X_eval), heuristic.predict(draw.X_eval))


def test_control_without_the_loss_term_has_other_weights_than_the_paper(draw=SMALL):
    fit = method_function("one_step")
    coupled, free = fit(draw, 0, reg_g=(0.01,)), fit(draw, 0, reg_g=(0.01,), coupling=0.0)
    assert np.abs(coupled.weights - free.weights).max() > 1e-3
