"""Every problem gives the rows that its file promises; the metric is what it says."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from covshift.experiments.contract import draw_rows
from covshift.experiments.grid import found, load_experiment, problem_function
from covshift.experiments.objective import error_rate, mse
from covshift.experiments.problems.panel import members

SIZES = {"toy": (150, 150), "heart": (100, 70), "sonar": (80, 50), "panel": (200, 70)}


def _needs_data(file):
    for name in {"toy": [], "panel": ["COVSHIFT_DATA", "COVSHIFT_PANEL"]}.get(file, ["COVSHIFT_DATA"]):
        if not Path(os.environ.get(name, "-")).is_dir():
            pytest.skip(f"{name} is not set to a folder")
    if file == "panel":
        pytest.importorskip("pandas")


BIASED = ("australian", "breast", "diabetes", "heart", "sonar")


def _draw(file, seed):
    _needs_data(file)
    options = {"name": "auto_origin"} if file == "panel" else {"n_directions": 2} if file in BIASED else {}
    return problem_function(file)(seed, **options)


@pytest.mark.parametrize("file", found("problems"))
def test_sizes_and_finite_numbers(file):
    draw = _draw(file, 0)
    assert (len(draw.y), len(draw.X_target)) == SIZES.get(file, (100, 100))
    assert len(draw.X) == len(draw.y) and len(draw.X_eval) == len(draw.y_eval) >= 20
    assert draw.X.shape[1] == draw.X_target.shape[1] == draw.X_eval.shape[1]
    assert all(np.isfinite(part).all() for part in (draw.X, draw.X_target, draw.X_eval))
    assert draw.kind == ("classification" if set(np.unique(draw.y)) == {-1, 1} else "regression")


@pytest.mark.parametrize("file", found("problems"))
def test_seed_decides_the_draw(file):
    first, same, other = _draw(file, 1), _draw(file, 1), _draw(file, 2)
    assert np.array_equal(first.X, same.X) and np.array_equal(first.X_eval, same.X_eval)
    assert first.X.shape != other.X.shape or not np.array_equal(first.X, other.X)


def test_evaluation_rows_are_none_that_a_method_saw():
    X = np.arange(100.0)[:, None]
    draw = draw_rows("regression", (X, X[:, 0]), (X + 1000, X[:, 0]), 30, 40, np.random.default_rng(0))
    assert len(draw.X) == 30 and len(draw.X_target) == 40 and len(draw.X_eval) == 60
    assert not set(draw.X_target[:, 0]) & set(draw.X_eval[:, 0])
    assert len(np.unique(draw.X)) == 30
    assert np.array_equal(draw.X_eval[:, 0] - 1000, draw.y_eval)


def test_too_few_rows_are_told_with_both_sizes():
    X = np.zeros((50, 1))
    with pytest.raises(ValueError, match=r"n_source=10, n_target=40: the parts have 50 and 50 rows"):
        draw_rows("regression", (X, X[:, 0]), (X, X[:, 0]), 10, 40, np.random.default_rng(0))


def test_true_ratio_belongs_to_the_rows_that_were_drawn():
    X = np.arange(60.0)[:, None]
    draw = draw_rows("regression", (X, X[:, 0]), (X, X[:, 0]), 20, 20, np.random.default_rng(1), X[:, 0] ** 2)
    assert np.array_equal(draw.true_ratio, draw.X[:, 0] ** 2)


def test_source_rows_of_the_panel_are_capped():
    _needs_data("panel")
    draw = problem_function("panel")(0, name="auto_origin", max_source=50)
    assert len(draw.X) == len(draw.y) == 50


def test_panel_members_are_those_of_the_grid():
    pytest.importorskip("yaml")
    assert list(members()) == [problem.name for problem in load_experiment("panel").problems]


def test_metrics_by_hand():
    assert mse(np.array([1.0, 3.0]), np.array([0.0, 1.0])) == 2.5
    assert error_rate(np.array([1, -1, 1, 1]), np.array([1, 1, 1, -1])) == 0.5
