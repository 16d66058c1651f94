"""ImportanceWeighted: the learner's own fit with the ratio's weights, through pipelines, searches and routing."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from covshift._checks import Target
from covshift.exceptions import AllWeightsZeroError, NoTargetWarning, OverlapWarning
from covshift.ratio import KLIEP, ULSIF, ClassifierRatio, RuLSIF
from covshift.weighting import ImportanceWeighted


def regression(seed=0, n=150, n_target=150):
    rng = np.random.default_rng(seed)
    X, X_target = rng.normal(1.0, 0.5, (n, 1)), rng.normal(1.5, 0.4, (n_target, 1))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=n), X_target


def classification(seed=0, n=150):
    X, y, X_target = regression(seed, n)
    return X, np.where(y > 0, "up", "down"), X_target


def quick(**parameters):
    return KLIEP(bandwidth=1.0, random_state=0, **parameters)


@pytest.mark.filterwarnings("ignore::covshift.exceptions.NoTargetWarning")
@pytest.mark.parametrize("learner", [Ridge(), LogisticRegression()], ids=lambda e: type(e).__name__)
def test_sklearn_checks(learner):
    check_estimator(ImportanceWeighted(learner), on_skip=None)


@pytest.mark.parametrize(
    "ratio", [None, quick(), RuLSIF(relative_alpha=0.5, random_state=0)], ids=["iw", "kliep", "riw"]
)
@pytest.mark.parametrize("flattening", [1.0, 0.5])
def test_fit_is_the_learner_fitted_by_hand_and_not_the_unweighted_one(ratio, flattening):
    X, y, X_target = regression()
    model = ImportanceWeighted(Ridge(), ratio, flattening, random_state=0).fit(X, y, X_target=X_target)
    np.testing.assert_array_equal(model.weights_, model.ratio_.weights_**flattening)
    by_hand = Ridge().fit(X, y, sample_weight=model.weights_)
    np.testing.assert_array_equal(model.predict(X), by_hand.predict(X))
    assert not np.allclose(model.predict(X), Ridge().fit(X, y).predict(X), atol=1e-3)
    assert model.adapted_


def test_ratio_is_the_one_given_fitted_to_the_two_samples():
    X, y, X_target = regression()
    ratio = quick()
    model = ImportanceWeighted(Ridge(), ratio).fit(X, y, X_target=X_target)
    np.testing.assert_array_equal(model.weights_, quick().fit(X, X_target=X_target).weights_)
    assert not hasattr(ratio, "weights_")
    np.testing.assert_allclose(model.predict_weights(X), model.weights_, rtol=1e-12)


def test_default_ratio_is_ulsif():
    X, y, X_target = regression()
    assert isinstance(ImportanceWeighted(Ridge()).fit(X, y, X_target=X_target).ratio_, ULSIF)


def test_flattening_of_zero_is_the_plain_learner():
    X, y, X_target = regression()
    model = ImportanceWeighted(Ridge(), flattening=0.0).fit(X, y, X_target=X_target)
    np.testing.assert_array_equal(model.predict(X), Ridge().fit(X, y).predict(X))
    np.testing.assert_array_equal(model.predict_weights(X), np.ones(len(X)))
    assert not model.adapted_ and model.ess_ == len(X)


def test_weights_reach_the_last_step_of_a_pipeline():
    X, y, X_target = regression()
    pipeline = make_pipeline(StandardScaler(), PolynomialFeatures(3), Ridge())
    model = ImportanceWeighted(pipeline, quick()).fit(X, y, X_target=X_target)
    by_hand = clone(pipeline).fit(X, y, ridge__sample_weight=model.weights_)
    np.testing.assert_allclose(model.predict(X), by_hand.predict(X), rtol=1e-10)
    assert not np.allclose(model.predict(X), clone(pipeline).fit(X, y).predict(X), atol=1e-3)
    assert not hasattr(pipeline[-1], "coef_")


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize(
    ("learner", "by_hand"),
    [
        (TransformedTargetRegressor(Ridge()), lambda X, y, w: Ridge().fit(X, y, w)),
        (GridSearchCV(Ridge(), {"alpha": [2.0]}), lambda X, y, w: Ridge(2.0).fit(X, y, w)),
        (
            GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [2.0]}),
            lambda X, y, w: make_pipeline(StandardScaler(), Ridge(2.0)).fit(X, y, ridge__sample_weight=w),
        ),
        (
            make_pipeline("passthrough", StandardScaler(), GridSearchCV(Ridge(), {"alpha": [2.0]})),
            lambda X, y, w: make_pipeline(StandardScaler(), Ridge(2.0)).fit(X, y, ridge__sample_weight=w),
        ),
    ],
    ids=["transformed target", "search", "search of a pipeline", "pipeline of a search"],
)
def test_weights_reach_what_meta_estimators_hold_with_routing_on_and_off(learner, by_hand, routing):
    X, y, X_target = regression()
    with sklearn.config_context(enable_metadata_routing=routing):
        model = ImportanceWeighted(learner, quick()).fit(X, y, X_target=X_target)
        predicted = model.predict(X)
    np.testing.assert_allclose(predicted, by_hand(X, y, model.weights_).predict(X), rtol=1e-8)


def test_frequencies_are_copies_for_scalers_too():
    X, y, X_target = regression(n=60)
    s = np.random.default_rng(0).integers(0, 4, len(X))
    kept = np.repeat(np.arange(len(X)), s)
    model = ImportanceWeighted(make_pipeline(StandardScaler(), Ridge()), quick())
    weighted = clone(model).fit(X, y, X_target=X_target, sample_weight=s)
    repeated = clone(model).fit(X[kept], y[kept], X_target=X_target)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5)
    assert weighted.weights_.shape == (60,)
    assert abs(weighted.ess_ - repeated.ess_) < 1e-3 * repeated.ess_


def test_searched_flattening_has_the_smallest_weighted_loss():
    X, y, X_target = regression(2)
    gammas = (0.0, 0.5, 1.0)
    model = ImportanceWeighted(Ridge(1e-3), quick(), gammas, random_state=0).fit(X, y, X_target=X_target)
    scores = model.cv_results_["mean_test_score"]
    assert model.flattening_ == gammas[int(np.argmax(scores))] > 0
    assert len(np.unique(scores)) == 3
    fixed = ImportanceWeighted(Ridge(1e-3), quick(), model.flattening_).fit(X, y, X_target=X_target)
    np.testing.assert_array_equal(model.predict(X), fixed.predict(X))


def test_search_score_is_its_formula():
    X, y, X_target = regression(3, n=40, n_target=30)
    half = np.arange(40) < 20
    cv = [(np.flatnonzero(~half), np.flatnonzero(half))]
    seen = []

    class Spy(KLIEP):
        def fit(self, X, y=None, *, X_target=None, sample_weight=None):
            seen.append(X_target)
            return super().fit(X, y, X_target=X_target, sample_weight=sample_weight)

    ratio = Spy(bandwidth=1.0, random_state=0)
    model = ImportanceWeighted(Ridge(), ratio, (0.3, 0.9), cv=cv, random_state=0).fit(X, y, X_target=X_target)
    fold = KLIEP(bandwidth=1.0, random_state=0).fit(X[~half], X_target=seen[0])
    for gamma, score in zip((0.3, 0.9), model.cv_results_["mean_test_score"], strict=True):
        f = Ridge().fit(X[~half], y[~half], fold.weights_**gamma)
        expected = -np.average((f.predict(X[half]) - y[half]) ** 2, weights=fold.predict(X[half]))
        assert abs(score - expected) < 1e-12


def test_classifiers_keep_their_labels_and_methods():
    X, y, X_target = classification()
    model = ImportanceWeighted(LogisticRegression(), quick(), (0.0, 1.0)).fit(X, y, X_target=X_target)
    assert is_classifier(model) and not is_regressor(model)
    assert list(model.classes_) == ["down", "up"]
    assert model.predict_proba(X).shape == (150, 2)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    assert model.decision_function(X).shape == (150,)
    assert model.score(X, y) == np.mean(model.predict(X) == y)
    assert model.score(X, y, sample_weight=X[:, 0] > 1) != model.score(X, y)


def test_methods_exist_where_the_learner_has_them():
    regressor, classifier = ImportanceWeighted(Ridge()), ImportanceWeighted(LinearSVC())
    assert is_regressor(regressor)
    assert not hasattr(regressor, "predict_proba") and not hasattr(regressor, "decision_function")
    assert hasattr(classifier, "decision_function") and not hasattr(classifier, "predict_proba")


def test_clone_and_pickle():
    X, y, X_target = regression()
    model = ImportanceWeighted(Ridge(), quick()).fit(X, y, X_target=X_target)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not hasattr(clone(model), "estimator_")


def test_the_same_seed_gives_the_same_bits():
    X, y, X_target = regression()
    first, second = (
        ImportanceWeighted(Ridge(), KLIEP((0.5, 1.0)), (0.3, 1.0), random_state=3)
        .fit(X, y, X_target=X_target)
        .predict(X)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def mixed_frame(seed, n, share):
    rng = np.random.default_rng(seed)
    colour = pd.Categorical(np.where(rng.uniform(size=n) < share, "red", "blue"), categories=["blue", "red"])
    return pd.DataFrame({"x": rng.normal(size=n), "colour": colour})


@pytest.mark.parametrize(
    "learner",
    [
        HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype"),
        make_pipeline(
            make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough"), LogisticRegression()
        ),
    ],
    ids=["boosting", "pipeline"],
)
def test_frames_reach_learner_and_ratio_unconverted(learner):
    X, X_target = mixed_frame(0, 150, 0.3), mixed_frame(1, 150, 0.6)
    y = ((X["x"] > 0) ^ (X["colour"] == "red")).to_numpy()
    ratio = ClassifierRatio(clone(learner), cv=3, random_state=0)
    model = ImportanceWeighted(learner, ratio).fit(X, y, X_target=X_target)
    by_hand = clone(learner)
    key = "logisticregression__sample_weight" if hasattr(learner, "steps") else "sample_weight"
    by_hand.fit(X, y, **{key: model.weights_})
    np.testing.assert_array_equal(model.predict(X), by_hand.predict(X))
    assert model.weights_[(X["colour"] == "red").to_numpy()].mean() > 1.2
    assert list(model.feature_names_in_) == ["x", "colour"]


def test_sparse_rows_reach_learner_and_ratio():
    X, y, X_target = regression()
    ratio = ClassifierRatio(LogisticRegression(), cv=3, random_state=0)
    dense = ImportanceWeighted(Ridge(solver="lsqr"), clone(ratio)).fit(X, y, X_target=X_target)
    sparse = ImportanceWeighted(Ridge(solver="lsqr"), ratio).fit(
        sp.csr_matrix(X), y, X_target=sp.csr_matrix(X_target)
    )
    np.testing.assert_allclose(sparse.predict(sp.csr_matrix(X)), dense.predict(X), atol=0.05)


# --- scikit-learn's own model selection

SEEN = []


class RecordingRatio(BaseEstimator):
    """Constant weights; remembers how many target rows each fit was given."""

    def fit(self, X, y=None, *, X_target=None, sample_weight=None):
        SEEN.append(len(X_target))
        self.weights_ = 1.0 + np.arange(len(X)) / len(X)
        return self

    def predict(self, X):
        return np.ones(len(X))


@pytest.mark.parametrize("routing", [False, True])
def test_searches_hand_all_target_rows_of_a_target_holder_to_every_fit(routing):
    X, y, X_target = regression(n=150, n_target=150)
    SEEN.clear()
    with sklearn.config_context(enable_metadata_routing=routing):
        model = ImportanceWeighted(Ridge(), RecordingRatio())
        if routing:
            model.set_fit_request(X_target=True)
        GridSearchCV(model, {"estimator__alpha": [0.1, 1.0]}, cv=3).fit(X, y, X_target=Target(X_target))
        cross_val_score(model, X, y, cv=3, params={"X_target": Target(X_target)})
    assert SEEN == [150] * (2 * 3 + 1 + 3)


def test_searches_cut_a_bare_array_of_as_many_rows():
    X, y, X_target = regression(n=150, n_target=150)
    SEEN.clear()
    GridSearchCV(ImportanceWeighted(Ridge(), RecordingRatio()), {"flattening": [1.0]}, cv=3).fit(
        X, y, X_target=X_target
    )
    assert SEEN == [100, 100, 100, 150]


def test_global_configuration_is_left_alone():
    before = sklearn.get_config()
    X, y, X_target = regression()
    ImportanceWeighted(GridSearchCV(Ridge(), {"alpha": [1.0]}), quick()).fit(X, y, X_target=X_target)
    assert sklearn.get_config() == before


# --- what it says


def test_without_target_it_is_the_plain_learner_and_says_so_once():
    X, y, _ = regression()
    with pytest.warns(NoTargetWarning, match="ImportanceWeighted.fit was called without X_target") as record:
        model = ImportanceWeighted(Ridge(), flattening=(0.0, 1.0)).fit(X, y)
    assert len(record) == 1
    np.testing.assert_array_equal(model.predict(X), Ridge().fit(X, y).predict(X))
    assert not model.adapted_ and model.ess_ == 150 and model.ratio_ is None
    np.testing.assert_array_equal(model.weights_, np.ones(150))


def test_few_effective_rows_are_told_once_in_its_own_name():
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(0, 1, (150, 1)), rng.normal(2.8, 0.3, (150, 1))
    with pytest.warns(OverlapWarning) as record:
        model = ImportanceWeighted(Ridge(), KLIEP(bandwidth=0.2)).fit(X, X[:, 0], X_target=X_target)
    texts = [str(warning.message) for warning in record]
    assert all(text.startswith("ImportanceWeighted: ") for text in texts)
    assert (
        len(texts) == 2 and f"worth {model.ess_:.1f} rows" in texts[0] and "beyond the source's support" in texts[1]
    )
    assert model.max_weight_share_ > 0.1


def test_flattened_weights_that_rest_on_many_rows_are_not_complained_about():
    X, y, X_target = regression()
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverlapWarning)
        model = ImportanceWeighted(Ridge(), quick(), 0.1).fit(X, y, X_target=X_target)
    assert model.ess_ > 0.5 * len(y)


class Untouchable:
    """Raises as soon as anybody looks at the rows."""

    def __getattr__(self, name):
        raise AssertionError(f"rows were looked at: {name}")


@pytest.mark.parametrize(
    "learner",
    [KNeighborsRegressor(), make_pipeline(StandardScaler(), KNeighborsRegressor())],
    ids=["plain", "pipeline"],
)
def test_learners_without_weights_are_refused_before_anything_is_looked_at(learner):
    with pytest.raises(
        ValueError, match="cannot be importance-weighted: its fit takes no sample_weight. Use a learner"
    ):
        ImportanceWeighted(learner).fit(Untouchable(), Untouchable(), X_target=Untouchable())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"flattening": 1.5}, r"flattening=1.5: expected a number in \[0, 1\]"),
        ({"flattening": []}, "flattening is an empty sequence"),
        ({"flattening": "half"}, "flattening='half'"),
        ({"ratio": 3.0}, "ratio=3.0: expected a ratio estimator such as ULSIF"),
        ({"cv": 1, "flattening": (0.0, 1.0)}, "cv=1: cross-validation needs at least 2 folds"),
        ({"estimator": 7}, "estimator=7 of ImportanceWeighted has no fit"),
    ],
)
def test_parameters_that_make_no_sense_are_named(parameters, message):
    X, y, X_target = regression(n=20)
    model = ImportanceWeighted(**{"estimator": Ridge(), "ratio": quick(), **parameters})
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, y, X_target=X_target)


def test_bad_rows_and_labels_are_named():
    X, y, X_target = regression(n=20)
    model = ImportanceWeighted(Ridge(), quick())
    with pytest.raises(ValueError, match=r"y has shape \(150, 2\).*fit\(X, y, X_target=...\)"):
        model.fit(X, np.zeros((150, 2)))
    with pytest.raises(ValueError, match="X has 20 rows and y 19 labels"):
        model.fit(X, y[:19], X_target=X_target)
    with pytest.raises(ValueError, match="X_target.*2 features.*expecting 1"):
        model.fit(X, y, X_target=np.zeros((5, 2)))
    with pytest.raises(ValueError, match="X_target must be two-dimensional"):
        model.fit(X, y, X_target=np.zeros(5))
    with pytest.raises(ValueError, match="X_target contains NaN|Input X_target contains NaN|NaN"):
        model.fit(X, y, X_target=np.full((5, 1), np.nan))
    with pytest.raises(ValueError, match=r"sample_weight\[3\]=-1: Negative values are not allowed"):
        model.fit(X, y, X_target=X_target, sample_weight=np.where(np.arange(20) == 3, -1.0, 1.0))
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        model.fit(X, y, X_target=X_target, sample_weight=np.zeros(20))


def test_columns_of_the_target_frame_are_compared():
    X, X_target = mixed_frame(0, 20, 0.5), mixed_frame(1, 20, 0.5)
    model = ImportanceWeighted(HistGradientBoostingClassifier(), ClassifierRatio(HistGradientBoostingClassifier()))
    with pytest.raises(ValueError, match="X_target of ImportanceWeighted.*columns, order"):
        model.fit(X, np.arange(20) % 2, X_target=X_target[["colour", "x"]])


def test_words_under_the_default_ratio_are_named_by_column():
    X = mixed_frame(0, 20, 0.5)
    with pytest.raises(ValueError, match=r"columns that are not numbers \(colour\).*ratio=ClassifierRatio"):
        ImportanceWeighted(HistGradientBoostingRegressor()).fit(X, np.arange(20.0), X_target=X)


def test_weights_that_are_all_zero_are_an_error():
    X, y, _ = regression(n=30)
    with pytest.raises(AllWeightsZeroError, match="bandwidth=0.01"):
        ratio = ULSIF(bandwidth=0.01, reg=0.1, standardize=False)
        ImportanceWeighted(Ridge(), ratio).fit(X, y, X_target=X + 100.0)


def test_callers_arrays_are_not_written_to():
    X, y, X_target = regression(n=40)
    s = np.ones(40)
    arrays = (X, y, X_target, s)
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    ImportanceWeighted(Ridge(), quick(), (0.5, 1.0)).fit(X, y, X_target=X_target, sample_weight=s).predict_weights(X)
    assert all(np.array_equal(array, copy) for array, copy in zip(arrays, before, strict=True))


@pytest.mark.filterwarnings("ignore::covshift.exceptions.OverlapWarning")
def test_degenerate_samples_give_a_model_or_a_sentence():
    X, y, X_target = regression(n=40)
    ulsif, ridge = ULSIF(random_state=0), ImportanceWeighted(Ridge(), random_state=0)
    np.testing.assert_allclose(ridge.fit(X, np.ones(40), X_target=X_target).predict(X), 1.0)  # constant y
    np.testing.assert_array_equal(ridge.fit(np.ones((40, 1)), y, X_target=X_target).weights_ > 0, True)
    assert ridge.fit(np.hstack([X, np.ones((40, 1))]), y, X_target=np.hstack([X_target, np.ones((150, 1))])).adapted_
    assert ridge.fit(X, y, X_target=X_target[:3]).ess_ > 0  # fewer target rows than centres
    with pytest.raises(ValueError, match="at least 2 classes.*only one class"):
        ImportanceWeighted(LogisticRegression(), ulsif).fit(X, ["a"] * 40, X_target=X_target)
    with pytest.raises(ValueError, match="X has 1 row"):
        ridge.fit(X[:1], y[:1], X_target=X_target)
    with pytest.raises(ValueError, match=r"X_target: Found array with 0 sample\(s\)"):
        ridge.fit(X, y, X_target=X_target[:0])
    with pytest.raises(ValueError, match="0 sample"):
        ridge.fit(X[:0], y[:0], X_target=X_target)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_huge_and_tiny_units_of_the_inputs_do_not_matter(scale):
    X, y, X_target = regression(n=60)
    model = ImportanceWeighted(LinearRegression(), quick())
    plain, scaled = (clone(model).fit(c * X, y, X_target=c * X_target) for c in (1.0, scale))
    np.testing.assert_allclose(scaled.weights_, plain.weights_, rtol=1e-6)


@pytest.mark.parametrize(
    "kind",
    [np.asfortranarray, lambda A: np.repeat(A, 2, axis=0)[::2], lambda A: A.astype(object), list, pl.DataFrame],
    ids=["fortran", "strided", "object", "list", "polars"],
)
def test_kinds_of_arrays_change_nothing(kind):
    X, y, X_target = (np.round(a, 6) for a in regression(n=60))
    model = ImportanceWeighted(Ridge(), quick())
    plain = clone(model).fit(X, y, X_target=X_target).predict(X)
    np.testing.assert_allclose(model.fit(kind(X), y, X_target=kind(X_target)).predict(kind(X)), plain, rtol=1e-10)


def test_float32_stays_within_its_accuracy():
    X, y, X_target = regression(n=60)
    model = ImportanceWeighted(Ridge(), quick())
    plain = clone(model).fit(X, y, X_target=X_target).predict(X)
    single = model.fit(X.astype(np.float32), y, X_target=X_target.astype(np.float32))
    assert single.weights_.dtype == np.float32
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), plain, atol=1e-4)


def test_steps_that_put_out_frames():
    X, y, X_target = regression(n=60)
    frame, target = (pd.DataFrame(a, columns=["x"]) for a in (X, X_target))
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), Ridge())
    model = ImportanceWeighted(pipeline, quick()).fit(frame, y, X_target=target, sample_weight=np.ones(60))
    assert list(model.estimator_[-1].feature_names_in_) == ["x"]
