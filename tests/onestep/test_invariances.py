"""What must not matter: order and repetition of rows, the form of the arrays, and what must stay untouched."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

from covshift import OneStepClassifier, OneStepRegressor, Target

pytestmark = pytest.mark.filterwarnings("ignore::covshift.OverlapWarning")

SMALL = {
    "n_centers": 8,
    "bandwidth_f": "median",
    "reg_f": (1e-2, 1.0),
    "reg_g": (0.01, 1.0),
    "cv": 2,
    "random_state": 0,
}


def shifted(seed=0, n=45, n_target=40):
    rng = np.random.default_rng(seed)
    X, X_target = rng.normal(0, 1, (n, 2)), rng.normal(0.7, 0.8, (n_target, 2))
    return X, np.sin(X[:, 0]) + 0.2 * rng.standard_normal(n), X_target


def models(**how):
    """One of each kind of f-step, with its labels."""
    return [
        (OneStepRegressor(**SMALL, **how), lambda y: y),
        (OneStepRegressor("tukey", loss_scale="mad", **SMALL, **how), lambda y: y),
        (OneStepRegressor.from_paper(**SMALL, **how), lambda y: y),
        (OneStepRegressor(criterion="objective", bandwidth_g="ulsif", **SMALL, **how), lambda y: y),
        (OneStepClassifier(selection="average", **SMALL, **how), lambda y: np.where(y > 0, "b", "a")),
        (OneStepClassifier(**SMALL, **how), lambda y: np.digitize(y, [-0.3, 0.3])),
        (OneStepClassifier("hinge", **SMALL, **how), lambda y: y > 0),
        (OneStepClassifier("logistic", **SMALL, **how), lambda y: y > 0),
        (OneStepClassifier("cross_entropy", **SMALL, **how), lambda y: np.digitize(y, [0.0])),
    ]


def outcome(model, rows):
    scores = model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)
    return np.concatenate([np.ravel(scores), model.predict_weights(rows)])


@pytest.mark.parametrize("k", range(9))
def test_the_order_of_rows_does_not_matter(k):
    X, y, X_target = shifted()
    model, labels = models()[k]
    rng = np.random.default_rng(1)
    p, p_target = rng.permutation(len(X)), rng.permutation(len(X_target))
    one = clone(model).fit(X, labels(y), X_target=X_target)
    two = clone(model).fit(X[p], labels(y)[p], X_target=X_target[p_target])
    np.testing.assert_allclose(outcome(two, X), outcome(one, X), atol=1e-6 if k >= 6 else 1e-8)
    np.testing.assert_allclose(two.weights_, one.weights_[p], atol=1e-6 if k >= 6 else 1e-8)


@pytest.mark.parametrize("k", range(9))
def test_frequencies_are_repeated_rows(k):
    X, y, X_target = shifted(seed=1, n=36)
    model, labels = models()[k]
    s = np.random.default_rng(2).integers(1, 4, len(X))
    weighted = clone(model).fit(X, labels(y), X_target=X_target, sample_weight=s)
    repeated = clone(model).fit(np.repeat(X, s, axis=0), np.repeat(labels(y), s), X_target=X_target)
    np.testing.assert_allclose(outcome(weighted, X), outcome(repeated, X), atol=2e-6 if k >= 6 or k == 1 else 1e-8)
    assert weighted.ess_ == pytest.approx(repeated.ess_, rel=1e-6)
    assert weighted.risk_bound_.value == pytest.approx(repeated.risk_bound_.value, rel=1e-5)


@pytest.mark.parametrize("k", range(9))
def test_frequency_zero_is_absence(k):
    X, y, X_target = shifted(seed=2)
    model, labels = models()[k]
    there = np.random.default_rng(3).random(len(X)) > 0.3
    y = labels(y)
    strange = X.copy()
    strange[~there] = 1e6  # would move centres, medians and units if it existed
    weighted = clone(model).fit(strange, y, X_target=X_target, sample_weight=there.astype(float))
    absent = clone(model).fit(X[there], y[there], X_target=X_target)
    np.testing.assert_allclose(outcome(weighted, X), outcome(absent, X), atol=2e-6 if k >= 6 else 1e-8)
    assert weighted.weights_.shape == (len(X),)


def test_frequency_zero_is_absence_for_index_pairs_and_splitters():
    X, y, X_target = shifted(seed=3)
    there = np.arange(len(X)) % 4 != 0
    old = np.flatnonzero(there)
    pairs = list(KFold(3, shuffle=True, random_state=0).split(X))
    position = np.cumsum(there) - 1
    reduced = [(position[train[there[train]]], position[test[there[test]]]) for train, test in pairs]
    model = OneStepRegressor(**SMALL | {"cv": pairs})
    weighted = model.fit(X, y, X_target=X_target, sample_weight=there.astype(float))
    absent = OneStepRegressor(**SMALL | {"cv": reduced}).fit(X[old], y[old], X_target=X_target)
    np.testing.assert_allclose(outcome(weighted, X), outcome(absent, X), atol=1e-9)
    by_splitter = OneStepRegressor(**SMALL | {"cv": KFold(3, shuffle=True, random_state=0)})
    by_splitter.fit(X, y, X_target=X_target, sample_weight=there.astype(float))
    np.testing.assert_allclose(outcome(by_splitter, X), outcome(weighted, X), atol=1e-12)


def test_a_class_of_frequency_zero_does_not_exist():
    X, y, X_target = shifted()
    codes = np.digitize(y, [-0.3, 0.3])
    s = (codes < 2).astype(float)
    model = OneStepClassifier("hinge", **SMALL).fit(X, codes, X_target=X_target, sample_weight=s)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    assert model.decision_function(X).shape == (len(X),)


def test_frequencies_times_a_constant_change_nothing():
    """Every mean is over sum s and reg_f is times sum s; only what is pooled with target rows counts rows."""
    X, y, X_target = shifted(seed=4)
    s = np.random.default_rng(0).integers(1, 3, len(X)).astype(float)
    how = SMALL | {"selection": "best", "standardize": False, "bandwidth_f": 1.0, "bandwidth_g": 0.7}
    one = OneStepRegressor(**how).fit(X, y, X_target=X_target, sample_weight=s)
    three = OneStepRegressor(**how).fit(X, y, X_target=X_target, sample_weight=3 * s)
    np.testing.assert_allclose(outcome(three, X), outcome(one, X), atol=1e-9)
    assert three.ess_ == pytest.approx(3 * one.ess_)


@pytest.mark.parametrize("k", range(9))
def test_single_precision_stays_and_is_close(k):
    X, y, X_target = shifted(seed=5)
    model, labels = models()[k]
    double = clone(model).fit(X, labels(y), X_target=X_target)
    y32 = labels(y).astype(np.float32) if labels(y).dtype == float else labels(y)
    single = clone(model).fit(X.astype(np.float32), y32, X_target=X_target.astype(np.float32))
    rows = X.astype(np.float32)
    scores = single.decision_function(rows) if k >= 4 else single.predict(rows)
    assert scores.dtype == single.predict_weights(rows).dtype == single.weights_.dtype == np.float32
    np.testing.assert_allclose(outcome(single, rows), outcome(double, X), atol=5e-3)
    if k < 4:
        assert single.predict(rows).dtype == np.float32


def test_integers_are_numbers():
    rng = np.random.default_rng(0)
    X, X_target = rng.integers(0, 9, (60, 2)), rng.integers(2, 11, (60, 2))
    y = X[:, 0] + X[:, 1]
    whole = OneStepRegressor(**SMALL).fit(X, y, X_target=X_target)
    real = OneStepRegressor(**SMALL).fit(X.astype(float), y.astype(float), X_target=X_target.astype(float))
    np.testing.assert_array_equal(outcome(whole, X), outcome(real, X))
    assert whole.predict(X).dtype == np.float64


def test_read_only_strided_and_mapped_arrays_give_the_same_numbers(tmp_path):
    X, y, X_target = shifted(seed=6)
    expected = outcome(OneStepRegressor(**SMALL).fit(X, y, X_target=X_target), X)
    frozen = [np.array(a) for a in (X, y, X_target)]
    for a in frozen:
        a.setflags(write=False)
    wide, long = np.repeat(X, 2, axis=1)[:, ::2], np.repeat(X_target, 3, axis=0)[::3]
    mapped = []
    for name, a in (("X", X), ("y", y), ("X_target", X_target)):
        np.save(tmp_path / f"{name}.npy", a)
        mapped.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    forms = [frozen, (np.asfortranarray(X), y[::-1][::-1], np.asfortranarray(X_target)), (wide, y, long), mapped]
    forms.append((X.astype(object), y.astype(object), X_target.astype(object)))
    forms.append((X.tolist(), y.tolist(), X_target.tolist()))
    for X_form, y_form, target_form in forms:
        model = OneStepRegressor(**SMALL).fit(X_form, y_form, X_target=target_form)
        np.testing.assert_allclose(outcome(model, X_form), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("k", range(9))
def test_the_callers_arrays_are_never_written_to(k):
    X, y, X_target = shifted(seed=7)
    model, labels = models()[k]
    y, s = labels(y), np.random.default_rng(0).random(len(X)) + 0.5
    given = [X, y, X_target, s]
    kept = [a.copy() for a in given]
    clone(model).fit(X, y, X_target=X_target, sample_weight=s).predict(X)
    for a, b in zip(given, kept, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("k", range(9))
def test_pickled_models_predict_the_same(k):
    X, y, X_target = shifted(seed=8)
    model, labels = models()[k]
    model.fit(X, labels(y), X_target=Target(X_target))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(outcome(again, X), outcome(model, X))
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "weights_")


def test_scalars_are_used_and_sequences_are_searched():
    X, y, X_target = shifted(seed=9)
    model = OneStepRegressor(bandwidth_f=1.5, bandwidth_g=(0.5, 1.0), reg_f=0.1, reg_g=(0.1, 1.0, np.inf))
    model.set_params(n_centers=10, random_state=0).fit(X, y, X_target=X_target)
    table = model.cv_results_
    assert len(table["params"]) == len(table["score"]) == 6
    assert set(table["param_bandwidth_f"]) == {1.5}
    assert set(table["param_reg_g"]) == {0.1, 1.0, np.inf}
    assert model.best_params_ == table["params"][int(np.argmin(table["score"]))]
    assert sorted(table["rank"]) == [1, 2, 3, 4, 5, 6]
    assert table["rank"][np.argmin(table["score"])] == 1
    objective = clone(model).set_params(criterion="objective").fit(X, y, X_target=X_target).cv_results_
    folds = np.stack([objective[f"split{k}_score"] for k in range(5)])
    np.testing.assert_allclose(folds.mean(axis=0), objective["score"])


def test_a_single_fold_of_index_pairs_is_enough():
    X, y, X_target = shifted(seed=10)
    pair = [(np.arange(30), np.arange(30, 45))]
    model = OneStepRegressor(**SMALL | {"cv": pair}).fit(X, y, X_target=X_target)
    assert np.isfinite(model.cv_results_["score"]).all()
    assert np.isnan(model.risk_bound_.se)


def test_probabilities_exist_where_the_loss_gives_them():
    X, y, X_target = shifted(seed=11)
    for model, labels in models()[4:]:
        model.fit(X, labels(y), X_target=X_target)
        assert hasattr(model, "predict_proba") == (model.loss in ("logistic", "cross_entropy"))
        if hasattr(model, "predict_proba"):
            p = model.predict_proba(X)
            np.testing.assert_allclose(p.sum(axis=1), 1.0)
            np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
            np.testing.assert_allclose(np.log(p[:, 1] / p[:, 0]), model.decision_function(X), atol=1e-9)
    assert not hasattr(OneStepRegressor(), "predict_proba")
