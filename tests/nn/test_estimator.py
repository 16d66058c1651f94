"""The scikit-learn estimators: their own suite of checks, weights as copies, images, pickling."""

from __future__ import annotations

import functools
import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from covshift.exceptions import NoTargetWarning
from covshift.nn import EarlyStopping, OneStepNetClassifier, OneStepNetRegressor, make_mlp

FAST = functools.partial(torch.optim.Adam, lr=1e-2)
SMALL = {
    "rounds": 1,
    "epochs_f": 10,
    "epochs_g": 1,
    "pretrain_g": 1,
    "batch_size": 64,
    "optimizer_f": FAST,
    "random_state": 0,
}


@pytest.mark.filterwarnings("ignore::covshift.exceptions.NoTargetWarning")
@parametrize_with_checks([OneStepNetClassifier(**SMALL), OneStepNetRegressor(**SMALL)])
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def shifted():
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(size=(120, 2)), rng.normal(1.0, 1.0, size=(80, 2))
    return X, np.where(X.sum(axis=1) > 0, "above", "below"), X_target


def test_whole_weights_are_copies_to_the_last_bit(shifted):
    X, y, X_target = shifted
    s = np.random.default_rng(1).integers(0, 3, len(X))
    weighted = OneStepNetClassifier(**SMALL).fit(X, y, X_target=X_target, sample_weight=s)
    copied = OneStepNetClassifier(**SMALL).fit(np.repeat(X, s, axis=0), np.repeat(y, s), X_target=X_target)
    np.testing.assert_array_equal(weighted.predict_proba(X), copied.predict_proba(X))


def test_without_a_target_the_weights_are_one_and_one_warning_says_so(shifted):
    X, y, _ = shifted
    with pytest.warns(NoTargetWarning, match="X_target") as caught:
        model = OneStepNetClassifier(**SMALL).fit(X, y)
    assert len(caught) == 1
    np.testing.assert_array_equal(model.weights_, 1.0)


def test_labels_come_back_and_a_pickle_predicts_the_same(shifted):
    X, y, X_target = shifted
    model = OneStepNetClassifier(**SMALL).fit(X, y, X_target=X_target)
    assert set(model.predict(X_target)) <= {"above", "below"}
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_weights(X), model.predict_weights(X))
    assert (model.weights_ >= 0).all() and model.ess_ <= len(X)


def test_a_default_network_for_images_keeps_its_pretrained_convolutions():
    rng = np.random.default_rng(0)
    images, target = rng.random((40, 16, 16)), rng.random((30, 16, 16))
    model = OneStepNetClassifier(**SMALL).fit(images, np.arange(40) % 3, X_target=target)
    assert model.predict_proba(target).shape == (30, 3)
    assert model.trainer_.freeze_g == 1


def test_the_regressor_answers_in_units_of_y(shifted):
    X, _, X_target = shifted
    y = 100.0 + 10.0 * X.sum(axis=1)
    model = OneStepNetRegressor(**SMALL | {"epochs_f": 60}).fit(X, y, X_target=X_target)
    assert model.score(X_target, 100.0 + 10.0 * X_target.sum(axis=1)) > 0.8


def test_target_images_of_another_size_are_refused():
    images = np.zeros((10, 16, 16))
    with pytest.raises(ValueError, match="X_target|same columns"):
        OneStepNetClassifier(**SMALL).fit(images, np.arange(10) % 2, X_target=np.zeros((10, 18, 18)))


def test_weights_are_those_of_the_rows_as_given(shifted):
    X, y, X_target = shifted
    s = np.random.default_rng(1).integers(0, 3, len(X))
    for sample_weight in (None, s, 0.5 * s):
        model = OneStepNetClassifier(**SMALL).fit(X, y, X_target=X_target, sample_weight=sample_weight)
        np.testing.assert_allclose(model.weights_, model.predict_weights(X))
        assert len(model.weights_) == len(X)
    repeated = OneStepNetClassifier(**SMALL).fit(np.repeat(X, s, axis=0), np.repeat(y, s), X_target=X_target)
    model = OneStepNetClassifier(**SMALL).fit(X, y, X_target=X_target, sample_weight=s)
    assert model.ess_ == pytest.approx(repeated.ess_, rel=1e-6)


def right_side(rows):
    return (rows[:, 0] > 50.0).float()


def test_a_function_of_the_rows_sees_them_as_given_and_needs_no_target(shifted):
    X, y, X_target = shifted
    X = 50.0 + 10.0 * X
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = OneStepNetClassifier(**SMALL | {"weights": right_side}).fit(X, y)
        plain = OneStepNetClassifier(**SMALL | {"weights": "uniform"}).fit(X, y)
    np.testing.assert_array_equal(model.weights_, X[:, 0] > 50.0)
    np.testing.assert_array_equal(plain.weights_, 1.0)
    images = np.random.default_rng(0).random((40, 16, 16))
    seen = []

    def note(rows):
        seen.append(rows.shape[1:])
        return torch.ones(len(rows))

    OneStepNetClassifier(**SMALL | {"weights": note}).fit(images, np.arange(40) % 3)
    assert set(seen) == {(16, 16)}
    pickle.loads(pickle.dumps(model))


def test_held_out_rows_are_in_the_units_of_the_data(shifted):
    X, y, X_target = shifted
    target = 100.0 + 10.0 * X.sum(axis=1)
    stopping = EarlyStopping(5, rows=(50 + X, target))
    options = SMALL | {"rounds": 2, "epochs_f": 40, "early_stopping": stopping}
    history = OneStepNetRegressor(**options).fit(50 + X, target, X_target=50 + X_target).history_
    assert history[-1]["validation"] < 0.5
    classes = SMALL | {"early_stopping": EarlyStopping(5, rows=(X, y)), "weights": "uniform"}
    assert OneStepNetClassifier(**classes).fit(X, y).history_[0]["validation"] < 0.1
    unknown = SMALL | {"early_stopping": EarlyStopping(5, rows=(X, np.full(len(X), "beside")))}
    with pytest.raises(ValueError, match=r"\['beside'\] are not among the classes"):
        OneStepNetClassifier(**unknown).fit(X, y, X_target=X_target)


def test_single_precision_stays_single(shifted):
    X, y, X_target = shifted
    for dtype in (np.float32, np.float64):
        model = OneStepNetClassifier(**SMALL).fit(X.astype(dtype), y, X_target=X_target.astype(dtype))
        assert model.predict_proba(X_target.astype(dtype)).dtype == dtype
        regressor = OneStepNetRegressor(**SMALL).fit(X.astype(dtype), X[:, 0], X_target=X_target.astype(dtype))
        assert regressor.predict(X_target.astype(dtype)).dtype == dtype


def test_a_network_with_other_outputs_than_classes_is_refused(shifted):
    X, y, X_target = shifted
    with pytest.raises(ValueError, match="f has 10 outputs, but these data need 2"):
        OneStepNetClassifier(make_mlp(2, 10), **SMALL).fit(X, y, X_target=X_target)


def test_images_with_and_without_channels_are_the_same_and_others_refused():
    rng = np.random.default_rng(0)
    images, target = rng.random((40, 16, 16)), rng.random((30, 16, 16))
    model = OneStepNetClassifier(**SMALL).fit(images, np.arange(40) % 3, X_target=target)
    np.testing.assert_array_equal(model.predict_proba(target), model.predict_proba(target[:, None]))
    with pytest.raises(ValueError, match=r"rows of shape \(1, 16, 18\).*fitted on \(1, 16, 16\)"):
        model.predict(rng.random((3, 16, 18)))
