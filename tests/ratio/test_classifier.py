"""ClassifierRatio: the analytic ratio, honest folds, any classifier, and refusals that say what to do."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.calibration import _SigmoidCalibration
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from covshift._checks import Target
from covshift.ratio import ClassifierRatio
from covshift.ratio._odds import fit_sigmoid, row_codes, stack_rows


def shifted_mean(seed, n=1000, n_target=None, d=10):
    """One sd in the first input: r(x) = exp(x_1 - 1/2)."""
    rng = np.random.default_rng(seed)
    X, X_target = rng.normal(size=(n, d)), rng.normal(size=(n_target or n, d))
    X_target[:, 0] += 1.0
    return X, X_target, np.exp(X[:, 0] - 0.5)


def normalised_error(w, r):
    w, r = w / w.mean(), r / r.mean()
    return np.sum((w - r) ** 2) / np.sum((1 - r) ** 2)


def test_weights_are_near_the_analytic_ratio():
    errors = []
    for seed in range(7):
        X, X_target, r = shifted_mean(seed)
        ratio = ClassifierRatio(random_state=seed).fit(X, X_target=X_target)
        assert np.corrcoef(np.log(ratio.weights_), np.log(r))[0, 1] > 0.9  # and not the inverse
        assert 0.8 < 1 / ratio.scale_ < 1.25
        errors.append(normalised_error(ratio.weights_, r))
    assert np.median(errors) <= 0.10


def test_unequal_sample_sizes_do_not_move_the_ratio():
    X, X_target, r = shifted_mean(0, n=400, n_target=4000)
    ratio = ClassifierRatio(random_state=0).fit(X, X_target=X_target)
    assert 0.8 < 1 / ratio.scale_ < 1.25
    assert normalised_error(ratio.weights_, r) < 0.2
    assert abs(ratio.weights_.mean() - 1) < 1e-12


def test_weights_come_from_models_that_have_not_seen_the_row():
    # A classifier that remembers its rows tells them apart perfectly, also where the samples are equal.
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
    ratio = ClassifierRatio(RandomForestClassifier(20, random_state=0), random_state=0)
    w = ratio.fit(X, X_target=X_target).weights_
    assert w.std() < 0.3


def test_weights_and_predictions_follow_their_formulas():
    X, X_target, _ = shifted_mean(1, n=120, n_target=80, d=2)
    half = np.arange(120) < 60
    cv = [(np.flatnonzero(~half), np.flatnonzero(half)), (np.flatnonzero(half), np.flatnonzero(~half))]
    ratio = ClassifierRatio(LogisticRegression(), cv=cv, random_state=0).fit(X, X_target=X_target)
    by_model = []
    for model, (slope, intercept) in zip(ratio.estimators_, ratio.calibration_, strict=True):
        p = model.predict_proba(X)[:, 1]
        by_model.append(np.exp(slope * np.log(p / (1 - p)) + intercept) * 60 / 40 * ratio.scale_)
    np.testing.assert_allclose(ratio.weights_, np.where(half, *by_model), rtol=1e-6)
    np.testing.assert_allclose(ratio.predict(X), np.mean(by_model, axis=0), rtol=1e-6)
    assert not np.allclose(ratio.weights_, ratio.predict(X))


def test_odds_are_clipped_on_both_sides():
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(0, 1, (300, 1)), rng.normal(2.5, 1, (300, 1))
    ratio = ClassifierRatio(clip=3.0, random_state=0).fit(X, X_target=X_target)
    g = ratio.predict([[-9.0], [9.0]]) / ratio.scale_
    np.testing.assert_allclose(g, [1 / 3, 3.0])


def test_sigmoid_is_platts():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 500).astype(float)
    scores = 3 * rng.normal(size=500) + 2 * labels
    s = rng.integers(1, 4, 500).astype(float)
    ours, theirs = fit_sigmoid(scores, labels, s), _SigmoidCalibration().fit(scores, labels, s)
    np.testing.assert_allclose([ours.a, ours.b], [-theirs.a_, -theirs.b_], rtol=1e-4)


def test_scores_that_rank_the_wrong_way_round_give_a_constant():
    labels = np.repeat([0.0, 1.0], 50)
    sigmoid = fit_sigmoid(1 - labels, labels, np.ones(100))
    assert sigmoid.a == 0.0 and abs(sigmoid.b) < 1e-12


@pytest.mark.parametrize(
    "classifier",
    [
        LinearSVC(),
        GaussianNB(),
        KNeighborsClassifier(30),
        HistGradientBoostingClassifier(max_iter=20),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda classifier: type(classifier).__name__,
)
def test_any_classifier_beats_no_weights(classifier):
    X, X_target, r = shifted_mean(2, n=400, d=2)
    ratio = ClassifierRatio(classifier, random_state=0).fit(X, X_target=X_target)
    assert normalised_error(ratio.weights_, r) < 0.8
    assert np.corrcoef(ratio.predict(X), r)[0, 1] > 0.5


def mixed_frame(seed, n, share):
    rng = np.random.default_rng(seed)
    x = np.where(rng.uniform(size=n) < 0.2, np.nan, rng.normal(size=n))
    colour = pd.Categorical(np.where(rng.uniform(size=n) < share, "red", "blue"))
    return pd.DataFrame({"x": x, "colour": colour})


def test_missing_values_and_categories_reach_the_classifier_unconverted():
    X, X_target = mixed_frame(0, 400, 0.2), mixed_frame(1, 400, 0.6)
    X_target["colour"] = X_target["colour"].cat.add_categories("green")
    classifier = HistGradientBoostingClassifier(max_iter=20, categorical_features="from_dtype")
    ratio = ClassifierRatio(classifier, random_state=0).fit(X, X_target=X_target)
    red = (X["colour"] == "red").to_numpy()
    assert abs(ratio.weights_[red].mean() - 3.0) < 0.9  # 0.6 / 0.2
    assert abs(ratio.weights_[~red].mean() - 0.5) < 0.25  # 0.4 / 0.8
    assert list(ratio.feature_names_in_) == ["x", "colour"]
    assert ratio.predict(X).shape == (400,)


def test_frames_of_strings_go_through_a_pipeline():
    X, X_target = (mixed_frame(k, 300, share).astype({"colour": str}) for k, share in ((0, 0.2), (1, 0.6)))
    encode = make_column_transformer((OneHotEncoder(), ["colour"]))
    ratio = ClassifierRatio(make_pipeline(encode, LogisticRegression()), random_state=0)
    w = ratio.fit(X, X_target=Target(X_target)).weights_
    assert abs(w[(X["colour"] == "red").to_numpy()].mean() - 3.0) < 0.9
    polars = ClassifierRatio(make_pipeline(encode, LogisticRegression()), random_state=0)
    same = polars.fit(pl.from_pandas(X[["colour"]]), X_target=pl.from_pandas(X_target[["colour"]])).weights_
    assert same.shape == (300,) and same.std() > 0.5


def test_sparse_rows_are_taken_where_the_classifier_takes_them():
    X, X_target, r = shifted_mean(3, n=300, d=3)
    ratio = ClassifierRatio(LogisticRegression(), cv=3, random_state=0)
    w = ratio.fit(sp.csr_matrix(X), X_target=sp.csr_matrix(X_target)).weights_
    assert np.corrcoef(w, r)[0, 1] > 0.8


def test_missing_values_in_arrays_follow_the_classifier():
    X, X_target, _ = shifted_mean(4, n=100, d=2)
    X[0, 0] = np.nan
    ClassifierRatio(HistGradientBoostingClassifier(max_iter=3)).fit(X, X_target=X_target)
    with pytest.raises(ValueError, match="contains NaN"):
        ClassifierRatio().fit(X, X_target=X_target)


def test_copies_of_a_row_share_a_fold():
    X = np.repeat(np.arange(20.0), 3)[:, None]
    ratio = ClassifierRatio(random_state=0).fit(X, X_target=X[:30] + 0.5)
    assert len(np.unique(ratio.weights_.reshape(20, 3), axis=1).T) == 1


def test_discrete_values_of_both_samples_are_spread_over_folds():
    rng = np.random.default_rng(0)
    X, X_target = (
        rng.choice(4, size=(400, 1), p=p).astype(float) for p in ([0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1])
    )
    classifier = make_pipeline(OneHotEncoder(), LogisticRegression())
    w = ClassifierRatio(classifier, random_state=0).fit(X, X_target=X_target).weights_
    means = [w[X[:, 0] == value].mean() for value in range(4)]
    np.testing.assert_allclose(means, [4.0, 1.5, 2 / 3, 0.25], rtol=0.35)


def test_row_codes_tell_equal_rows():
    frame = pd.DataFrame({"a": [1.5, 1.5, 2.0, 1.5], "b": ["x", "x", "x", "y"]})
    codes = row_codes(frame)
    assert (codes[0] == codes[1]).all()
    assert len(np.unique(codes, axis=0)) == 3
    assert len(np.unique(row_codes(frame.to_numpy()), axis=0)) == 3
    assert len(np.unique(row_codes(np.array([[np.nan], [np.nan], [1.0]])), axis=0)) == 2


def test_stacked_frames_keep_their_kinds():
    a, b = mixed_frame(0, 5, 1.0), mixed_frame(1, 4, 0.0)
    both = stack_rows(a, b)
    assert isinstance(both["colour"].dtype, pd.CategoricalDtype) and len(both) == 9
    assert list(a["colour"].cat.categories) == ["red"]  # the caller's frame is as it was


def test_splitters_that_leave_rows_out_still_give_them_weights():
    X, X_target, r = shifted_mean(5, n=200, d=2)
    cv = [(np.arange(50, 200), np.arange(50)), (np.r_[:50, 100:200], np.arange(50, 100))]
    w = ClassifierRatio(cv=cv).fit(X, X_target=X_target).weights_
    assert w.shape == (200,) and np.corrcoef(w, r)[0, 1] > 0.8


def test_large_target_of_a_small_source_is_taken():
    X, X_target, _ = shifted_mean(6, n=50, n_target=1_000_000, d=1)
    ratio = ClassifierRatio(GaussianNB(), cv=2).fit(X, X_target=X_target)
    assert abs(ratio.weights_.mean() - 1) < 1e-9


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"clip": 1.0}, r"clip=1.0: expected a number in \(1,"),
        ({"estimator": Ridge()}, r"estimator=Ridge\(\): expected a classifier"),
        ({"estimator": NearestCentroid()}, None),
        ({"cv": 1}, "cv=1: cross-validation needs at least 2 folds"),
    ],
)
def test_parameters_that_make_no_sense_are_named(parameters, message):
    X, X_target, _ = shifted_mean(0, n=30, d=2)
    if message is None:
        return ClassifierRatio(**parameters).fit(X, X_target=X_target)
    with pytest.raises((ValueError, TypeError), match=message):
        ClassifierRatio(**parameters).fit(X, X_target=X_target)


def test_classifier_without_scores_is_refused():
    class Labels(LogisticRegression):
        predict_proba = property()
        decision_function = property()

    X, X_target, _ = shifted_mean(0, n=30, d=2)
    with pytest.raises(TypeError, match="neither predict_proba nor decision_function"):
        ClassifierRatio(Labels()).fit(X, X_target=X_target)


def test_frequencies_need_a_classifier_that_takes_weights():
    X, X_target, _ = shifted_mean(0, n=30, d=2)
    with pytest.raises(ValueError, match=r"KNeighborsClassifier\(\) cannot be importance-weighted.*no sample_weight"):
        ClassifierRatio(KNeighborsClassifier()).fit(X, X_target=X_target, sample_weight=np.ones(30))


def test_frame_and_array_do_not_mix():
    X, X_target = mixed_frame(0, 20, 0.2), np.zeros((20, 2))
    with pytest.raises(ValueError, match="X_target is a ndarray and X a DataFrame.*frames of the same kind"):
        ClassifierRatio(HistGradientBoostingClassifier()).fit(X, X_target=X_target)


def test_frames_without_rows_or_with_other_columns_are_refused():
    X = mixed_frame(0, 20, 0.2)
    ratio = ClassifierRatio(HistGradientBoostingClassifier())
    with pytest.raises(ValueError, match="X_target is a frame with 0 rows"):
        ratio.fit(X, X_target=X[:0])
    with pytest.raises(ValueError, match="X_target of ClassifierRatio.*columns"):
        ratio.fit(X, X_target=X[["colour", "x"]])


def test_one_target_row_cannot_be_cross_fitted():
    X, X_target, _ = shifted_mean(0, n=30, d=2)
    with pytest.raises(ValueError, match="X_target has 1 row"):
        ClassifierRatio().fit(X, X_target=X_target[:1])
