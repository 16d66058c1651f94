"""The worst projection: its probabilities, its ratio, and what it may look at."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from covshift.datasets import make_biased_split


@pytest.fixture(scope="module")
def table():
    X, y = make_classification(400, 6, n_informative=4, random_state=0)
    return X * [1, 10, 0.1, 1, 1, 1] + [0, 5, 0, 0, -3, 0], np.where(y == 1, 1, -1)


def probability(X, w, strength):
    """The paper's formula, step by step."""
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    v = strength * (z @ w) / (z @ w).std()
    return np.exp(v) / (1 + np.exp(v))


def test_every_row_goes_to_exactly_one_side(table):
    X, y = table
    split = make_biased_split(X, y, random_state=0)
    both = np.concatenate([split.source_index, split.target_index])
    assert sorted(both) == list(range(len(X)))
    np.testing.assert_array_equal(split.X, X[split.source_index])
    np.testing.assert_array_equal(split.y_target, y[split.target_index])


def test_probability_is_the_papers_formula(table):
    X, y = table
    split = make_biased_split(X, y, random_state=1)
    assert np.linalg.norm(split.direction) == pytest.approx(1)
    np.testing.assert_allclose(split.source_probability, probability(X, split.direction, 16), rtol=1e-9)


def test_rows_are_assigned_with_that_probability(table):
    X, y = table
    w = np.ones(6)
    draws = np.zeros(len(X))
    for seed in range(400):
        draws[make_biased_split(X, y, direction=w, strength=1.0, random_state=seed).source_index] += 1
    p = probability(X, w, 1.0)
    z = (draws - 400 * p) / np.sqrt(400 * p * (1 - p))
    assert abs(z.mean()) < 0.2  # 400 nearly independent z-scores: standard error 0.05
    assert abs(z.std() - 1) < 0.2


def test_ratio_moves_source_means_to_target_means(table):
    X = np.random.default_rng(0).normal(size=(100_000, 2))
    split = make_biased_split(X, np.zeros(len(X)), direction=[1.0, 1.0], strength=1.0, random_state=0)
    r = split.true_ratio(split.X)
    assert r.mean() == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose((r[:, None] * split.X).mean(axis=0), split.X_target.mean(axis=0), atol=0.03)
    odds = split.source_probability.mean() / (1 - split.source_probability.mean())
    p = split.source_probability[split.source_index]
    np.testing.assert_allclose(r, odds * (1 - p) / p, rtol=1e-9)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(split)).true_ratio(split.X), r)


def test_the_worst_of_the_tried_directions_is_kept(table):
    X, y = table
    errors = [make_biased_split(X, y, n_directions=n, random_state=3).target_error for n in (1, 5, 20)]
    assert errors == sorted(errors)
    assert errors[-1] > errors[0]
    split = make_biased_split(X, y, n_directions=20, random_state=3)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LogisticRegression(max_iter=1000).fit(z[split.source_index], split.y)
    assert np.mean(model.predict(z[split.target_index]) != split.y_target) == split.target_error


def test_another_classifier_chooses_by_its_own_error(table):
    X, y = table
    split = make_biased_split(X, y, classifier=DummyClassifier(), random_state=3)
    majority = DummyClassifier().fit(split.X, split.y).predict(split.X_target)
    assert split.target_error == np.mean(majority != split.y_target)


def test_assignment_looks_at_x_alone(table):
    X, y = table
    first = make_biased_split(X, y, direction=np.ones(6), random_state=0)
    other = make_biased_split(X, np.roll(y, 7), direction=np.ones(6), random_state=0)
    np.testing.assert_array_equal(first.source_index, other.source_index)
    assert first.target_error is None


def test_scale_and_place_of_the_inputs_do_not_matter(table):
    X, y = table
    first = make_biased_split(X, y, random_state=0)
    other = make_biased_split(X * [2, 3, 4, 5, 6, 7] + 100, y, random_state=0)
    np.testing.assert_array_equal(first.source_index, other.source_index)


def test_same_seed_same_split(table):
    X, y = table
    first, again, other = (make_biased_split(X, y, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.source_index, again.source_index)
    assert set(first.source_index) != set(other.source_index)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_directions": 0}, "n_directions=0"),
        ({"strength": 0.0}, "strength=0.0"),
        ({"direction": [1.0, 2.0]}, r"direction has shape \(2,\): expected 6"),
        ({"direction": [np.nan] * 6}, "finite"),
        ({"direction": [0.0] * 6}, "same projection"),
    ],
)
def test_bad_parameters_are_refused(table, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_biased_split(*table, **arguments)


def test_one_class_or_constant_inputs_are_refused(table):
    X, _ = table
    with pytest.raises(ValueError, match="none of n_directions=20"):
        make_biased_split(X, np.ones(len(X)), random_state=0)
    with pytest.raises(ValueError, match="every column of X is constant"):
        make_biased_split(np.ones((10, 2)), np.arange(10) % 2, random_state=0)
