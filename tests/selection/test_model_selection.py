"""Importance-weighted selection: the formula, the folds, who gets the target, and what is refused."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import make_scorer, max_error, mean_squared_error
from sklearn.model_selection import GroupKFold, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from covshift._checks import Target
from covshift.exceptions import AllWeightsZeroError, NoTargetWarning, OverlapWarning
from covshift.model_selection import IWGridSearchCV, IWRandomizedSearchCV, iw_cross_validate
from covshift.ratio import KLIEP, ClassifierRatio
from covshift.weighting import ImportanceWeighted


def regression(seed=0, n=150, n_target=150):
    rng = np.random.default_rng(seed)
    X, X_target = rng.normal(1.0, 0.5, (n, 1)), rng.normal(1.6, 0.4, (n_target, 1))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=n), X_target


def classification(seed=0, n=150):
    X, y, X_target = regression(seed, n)
    return X, np.where(y > 0, "up", "down"), X_target


class KnownRatio(BaseEstimator):
    """exp(x_1), known beforehand; remembers what it was fitted to."""

    log = []

    def fit(self, X, y=None, *, X_target=None, sample_weight=None):
        self.log.append((X, X_target.X, sample_weight))
        return self

    def predict(self, X):
        return np.exp(np.asarray(X)[:, 0])


def halves(n):
    first = np.arange(n) < n // 2
    return [(np.flatnonzero(~first), np.flatnonzero(first)), (np.flatnonzero(first), np.flatnonzero(~first))]


@pytest.mark.filterwarnings("ignore::covshift.exceptions.NoTargetWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(
    "search",
    [
        IWGridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2),
        IWGridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2),
        IWRandomizedSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_iter=1, cv=2),
    ],
    ids=["grid, regressor", "grid, classifier", "randomized"],
)
def test_sklearn_checks(search):
    check_estimator(search, on_skip=None)


@pytest.mark.parametrize("weighting", ["self_normalized", "plain"])
@pytest.mark.parametrize("frequent", [False, True])
def test_score_and_standard_error_follow_their_formulas(weighting, frequent):
    X, y, X_target = regression(n=40)
    s = np.random.default_rng(0).integers(1, 4, 40).astype(float) if frequent else None
    result = iw_cross_validate(
        Ridge(),
        X,
        y,
        X_target=X_target,
        sample_weight=s,
        ratio=KnownRatio(),
        scoring="neg_mean_squared_error",
        cv=halves(40),
        weighting=weighting,
    )
    expected, plain = [], []
    for train, test in halves(40):
        f = Ridge().fit(X[train], y[train], None if s is None else s[train])
        losses, sw = (f.predict(X[test]) - y[test]) ** 2, np.ones(20) if s is None else s[test]
        w = np.exp(X[test, 0])
        expected.append(-np.sum(sw * w * losses) / np.sum(sw * (w if weighting == "self_normalized" else 1)))
        plain.append(-np.average(losses, weights=sw))
    np.testing.assert_allclose(result["test_score"], expected, rtol=1e-12)
    np.testing.assert_allclose(result["unweighted_test_score"], plain, rtol=1e-12)
    assert abs(result["weighted_score"] - np.mean(expected)) < 1e-12
    assert abs(result["standard_error"] - np.std(expected, ddof=1) / np.sqrt(2)) < 1e-12
    np.testing.assert_allclose(result["weights"], np.exp(X[:, 0]), rtol=1e-12)
    assert len(result["fit_time"]) == len(result["score_time"]) == 2


def test_the_learner_itself_is_fitted_unweighted():
    X, y, X_target = regression(n=40)
    result = iw_cross_validate(
        Ridge(), X, y, X_target=X_target, ratio=KnownRatio(), cv=halves(40), return_estimator=True
    )
    for f, (train, _) in zip(result["estimator"], halves(40), strict=True):
        np.testing.assert_array_equal(f.coef_, Ridge().fit(X[train], y[train]).coef_)


def test_source_and_target_are_cut_side_by_side_and_each_ratio_sees_its_own_pair():
    X, y, X_target = regression(n=150, n_target=150)
    KnownRatio.log.clear()
    iw_cross_validate(Ridge(), X, y, X_target=X_target, ratio=KnownRatio(), cv=5, random_state=0)
    assert [(len(a), len(b)) for a, b, _ in KnownRatio.log] == [(120, 120)] * 5
    left_out = [set(X_target.ravel()) - set(b.ravel()) for _, b, _ in KnownRatio.log]
    assert set().union(*left_out) == set(X_target.ravel()) and sum(map(len, left_out)) == 150


def test_grid_search_takes_the_best_weighted_mean_and_refits_on_all_rows():
    X, y, X_target = regression()
    grid = {"alpha": [1e-3, 1.0, 1e3]}
    search = IWGridSearchCV(Ridge(), grid, scoring="neg_mean_squared_error", random_state=0)
    search.fit(X, y, X_target=X_target)
    table = search.cv_results_
    for k, alpha in enumerate(grid["alpha"]):
        alone = iw_cross_validate(
            Ridge(alpha), X, y, X_target=X_target, scoring="neg_mean_squared_error", random_state=0
        )
        assert abs(table["mean_test_score"][k] - alone["weighted_score"]) < 1e-12
        assert abs(table["se_test_score"][k] - alone["standard_error"]) < 1e-12
        assert table["split3_test_score"][k] == alone["test_score"][3]
        assert abs(table["mean_unweighted_score"][k] - alone["unweighted_test_score"].mean()) < 1e-12
    assert search.best_index_ == int(np.argmax(table["mean_test_score"]))
    assert search.best_params_ == {"alpha": table["param_alpha"][search.best_index_]}
    assert search.best_score_ == table["mean_test_score"].max()
    assert sorted(table["rank_test_score"]) == [1, 2, 3] and table["rank_test_score"][search.best_index_] == 1
    np.testing.assert_array_equal(search.predict(X), Ridge(**search.best_params_).fit(X, y).predict(X))
    assert search.n_splits_ == 5 and search.refit_time_ >= 0
    assert search.weights_.shape == (150,) and 1 < search.ess_ <= 150 and search.adapted_


@pytest.mark.filterwarnings("ignore::covshift.exceptions.OverlapWarning")
def test_weighted_choice_is_better_on_the_target_than_the_unweighted_one():
    # Specification by Shimodaira: the source favours the line that fits where its rows are, the target another.
    rng = np.random.default_rng(0)
    weighted, unweighted = [], []
    for _ in range(3):
        X, X_target = rng.normal(0.5, 0.5, (200, 1)), rng.normal(0.0, 0.3, (200, 1))
        y = -X[:, 0] + X[:, 0] ** 3 + 0.3 * rng.normal(size=200)
        truth = -X_target[:, 0] + X_target[:, 0] ** 3
        model = ImportanceWeighted(
            LinearRegression(), ClassifierRatio(make_pipeline(PolynomialFeatures(2), LogisticRegression()))
        )
        search = IWGridSearchCV(
            model,
            {"flattening": [0.0, 0.5, 1.0]},
            ratio=model.ratio,
            scoring="neg_mean_squared_error",
            random_state=0,
        )
        search.fit(X, y, X_target=X_target)
        weighted.append(np.mean((search.predict(X_target) - truth) ** 2))
        unweighted.append(np.mean((LinearRegression().fit(X, y).predict(X_target) - truth) ** 2))
        table = search.cv_results_
        assert np.argmax(table["mean_unweighted_score"]) == 0 and search.best_params_["flattening"] > 0
    assert np.mean(weighted) < 0.5 * np.mean(unweighted)


class TargetTaker(RegressorMixin, BaseEstimator):
    """Remembers what its fits were given."""

    log = []

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y, *, X_target=None, sample_weight=None):
        self.log.append((len(X), X_target, sample_weight))
        self.mean_ = np.average(y, weights=sample_weight)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_ + self.shift)


def test_learners_that_take_a_target_get_the_folds_rows_and_all_of_them_in_the_refit():
    X, y, X_target = regression(n=150, n_target=100)
    TargetTaker.log.clear()
    IWGridSearchCV(TargetTaker(), {"shift": [0.0, 1.0]}, cv=5).fit(X, y, X_target=Target(X_target))
    sizes = [(n, len(target.X), s) for n, target, s in TargetTaker.log]
    assert all(isinstance(target, Target) for _, target, _ in TargetTaker.log)
    assert sizes == [(120, 80, None)] * 10 + [(150, 100, None)]
    assert TargetTaker.log[-1][1].X is X_target or np.array_equal(TargetTaker.log[-1][1].X, X_target)


@pytest.mark.parametrize("routing", [False, True])
def test_our_own_estimators_inside_with_routing_on_and_off(routing):
    X, y, X_target = regression()
    with sklearn.config_context(enable_metadata_routing=routing):
        model = ImportanceWeighted(make_pipeline(StandardScaler(), Ridge()), KLIEP(1.0, random_state=0))
        search = IWGridSearchCV(model, {"flattening": [0.0, 1.0], "estimator__ridge__alpha": [0.1, 10.0]}, cv=3)
        search.set_params(ratio=KLIEP(1.0), random_state=0).fit(X, y, X_target=X_target, sample_weight=np.ones(150))
    by_hand = clone(model).set_params(**search.best_params_).fit(X, y, X_target=X_target, sample_weight=np.ones(150))
    np.testing.assert_allclose(search.predict(X), by_hand.predict(X), rtol=1e-12)
    np.testing.assert_allclose(search.predict_weights(X), by_hand.predict_weights(X), rtol=1e-12)


def test_frequencies_reach_ratio_learner_and_score_and_zero_is_absence():
    X, y, X_target = regression(n=60)
    s = np.where(np.arange(60) < 20, 0.0, 2.0)
    common = {"X_target": X_target, "scoring": "neg_mean_squared_error", "random_state": 0, "ratio": KLIEP(1.0)}
    learner = make_pipeline(StandardScaler(), Ridge())
    with_zeros = iw_cross_validate(learner, X, y, sample_weight=s, **common)
    without = iw_cross_validate(learner, X[20:], y[20:], sample_weight=s[20:], **common)
    np.testing.assert_allclose(with_zeros["test_score"], without["test_score"], rtol=1e-9)
    assert (with_zeros["weights"][:20] == 0).all()
    KnownRatio.log.clear()
    split = iw_cross_validate(Ridge(), X, y, X_target=X_target, sample_weight=s, ratio=KnownRatio(), cv=KFold(3))
    assert len(split["test_score"]) == 2  # the first third is not there
    assert all((weights == 2.0).all() for _, _, weights in KnownRatio.log)


def test_splitters_groups_and_index_pairs():
    X, y, X_target = regression(n=60)
    groups = np.arange(60) % 6
    by_group = iw_cross_validate(
        Ridge(), X, y, X_target=X_target, cv=GroupKFold(3), groups=groups, ratio=KnownRatio(), return_estimator=True
    )
    assert len(by_group["test_score"]) == 3
    one = iw_cross_validate(Ridge(), X, y, X_target=X_target, cv=halves(60)[:1], ratio=KnownRatio())
    assert np.isnan(one["standard_error"]) and (one["weights"][30:] == 0).all()


def test_parallel_runs_give_the_same_numbers():
    X, y, X_target = regression()
    search = IWGridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, random_state=0)
    alone = clone(search).fit(X, y, X_target=X_target)
    with joblib.parallel_config(backend="threading"):
        together = search.set_params(n_jobs=2).fit(X, y, X_target=X_target)
    np.testing.assert_array_equal(alone.cv_results_["mean_test_score"], together.cv_results_["mean_test_score"])


def test_randomized_search_draws_its_candidates_from_the_seed():
    X, y, X_target = regression(n=60)
    search = IWRandomizedSearchCV(
        Ridge(), {"alpha": loguniform(0.1, 10)}, n_iter=4, ratio=KnownRatio(), random_state=5
    )
    first, second = (clone(search).fit(X, y, X_target=X_target) for _ in range(2))
    assert first.cv_results_["params"] == second.cv_results_["params"]
    assert len({round(p["alpha"], 9) for p in first.cv_results_["params"]}) == 4
    np.testing.assert_array_equal(first.predict(X), second.predict(X))


def test_classifiers_keep_their_labels_and_methods():
    X, y, X_target = classification()
    search = IWGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring="neg_log_loss").fit(
        X, y, X_target=X_target
    )
    assert is_classifier(search) and not is_regressor(search)
    assert list(search.classes_) == ["down", "up"] and search.n_features_in_ == 1
    np.testing.assert_allclose(np.exp(search.predict_log_proba(X)), search.predict_proba(X))
    assert search.decision_function(X).shape == (150,)
    best = search.best_estimator_
    assert search.score(X, y) == pytest.approx(-np.mean(-np.log(best.predict_proba(X)[range(150), (y == "up") * 1])))
    assert search.score(X, y, sample_weight=X[:, 0] > 1) != search.score(X, y)


@pytest.mark.parametrize("scoring", [None, "roc_auc", make_scorer(mean_squared_error, greater_is_better=False)])
def test_any_metric_that_takes_weights(scoring):
    X, y, X_target = classification()
    y = (y == "up").astype(int)
    result = iw_cross_validate(LogisticRegression(), X, y, X_target=X_target, scoring=scoring, random_state=0)
    assert np.isfinite(result["test_score"]).all()
    assert not np.allclose(result["test_score"], result["unweighted_test_score"])


def test_without_refit_there_is_a_table_and_no_model():
    X, y, X_target = regression(n=60)
    search = IWGridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, ratio=KnownRatio(), refit=False).fit(
        X, y, X_target=X_target
    )
    assert search.best_params_["alpha"] in (0.1, 1.0)
    assert not hasattr(search, "predict") and not hasattr(search, "best_estimator_")


def test_clone_and_pickle():
    X, y, X_target = regression(n=60)
    search = IWGridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3, random_state=0).fit(X, y, X_target=X_target)
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    assert not hasattr(clone(search), "best_params_")


def test_frames_reach_learner_and_ratio_unconverted():
    rng = np.random.default_rng(0)

    def frame(n, share):
        colour = pd.Categorical(np.where(rng.uniform(size=n) < share, "red", "blue"), categories=["blue", "red"])
        return pd.DataFrame({"x": rng.normal(size=n), "colour": colour})

    X, X_target = frame(120, 0.3), frame(120, 0.6)
    y = pd.Series((X["x"] > 0) ^ (X["colour"] == "red"))
    boosting = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    search = IWGridSearchCV(boosting, {"max_leaf_nodes": [3, 7]}, ratio=ClassifierRatio(boosting, cv=2), cv=2)
    search.fit(X, y, X_target=Target(X_target))
    assert list(search.best_estimator_.feature_names_in_) == ["x", "colour"]
    with pytest.raises(ValueError, match=r"columns that are not numbers \(colour\).*ratio=ClassifierRatio"):
        IWGridSearchCV(boosting, {"max_leaf_nodes": [3]}).fit(X, y, X_target=X_target)


def test_without_target_it_is_plain_cross_validation_and_says_so_once():
    X, y, _ = regression(n=60)
    with pytest.warns(NoTargetWarning, match="IWGridSearchCV.fit was called without X_target") as record:
        search = IWGridSearchCV(ImportanceWeighted(Ridge()), {"estimator__alpha": [0.1, 1.0]}).fit(X, y)
    assert len(record) == 1 and not search.adapted_
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], search.cv_results_["mean_unweighted_score"])


def test_few_effective_rows_are_told_once_for_all_folds():
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(0, 1, (150, 1)), rng.normal(2.8, 0.3, (150, 1))
    with pytest.warns(OverlapWarning) as record:
        search = IWGridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, random_state=0).fit(X, X[:, 0], X_target=X_target)
    texts = [str(warning.message) for warning in record]
    assert 1 <= len(texts) <= 2 and all(text.startswith("IWGridSearchCV: ") for text in texts)
    assert search.ess_ < 15


def test_held_out_rows_without_weight_are_an_error():
    class Nothing(KnownRatio):
        def predict(self, X):
            return np.zeros(len(X))

    X, y, X_target = regression(n=40)
    with pytest.raises(
        AllWeightsZeroError, match="fold 0 is zero at all of its 8 held-out source rows.*ClassifierRatio"
    ):
        iw_cross_validate(Ridge(), X, y, X_target=X_target, ratio=Nothing())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"weighting": "normalized"}, "weighting='normalized': expected one of 'self_normalized', 'plain'"),
        ({"scoring": make_scorer(max_error)}, "takes no sample_weight, so it cannot be importance-weighted"),
        ({"scoring": ["r2", "accuracy"]}, "expected one metric"),
        ({"cv": 1}, "cv=1: cross-validation needs at least 2 folds"),
        ({"cv": "five"}, "cv='five': expected an integer, a splitter"),
        ({"param_grid": {"alhpa": [1.0]}}, "Invalid parameter 'alhpa'"),
        ({"param_grid": {"alpha": []}}, "alpha"),
        ({"estimator": 3}, "estimator=3: expected a learner with fit"),
    ],
)
def test_parameters_that_make_no_sense_are_named(parameters, message):
    X, y, X_target = regression(n=20)
    search = IWGridSearchCV(
        **{"estimator": Ridge(), "param_grid": {"alpha": [1.0]}, "ratio": KnownRatio(), **parameters}
    )
    with pytest.raises((ValueError, TypeError), match=message):
        search.fit(X, y, X_target=X_target)


def test_bad_rows_and_labels_are_named():
    X, y, X_target = regression(n=20)
    search = IWGridSearchCV(Ridge(), {"alpha": [1.0]})
    with pytest.raises(ValueError, match=r"y has shape \(150, 2\).*X_target=..."):
        search.fit(X, np.zeros((150, 2)))
    with pytest.raises(ValueError, match="X_target has 1 row"):
        search.fit(X, y, X_target=X_target[:1])
    with pytest.raises(ValueError, match="X_target.*2 features.*expecting 1"):
        search.fit(X, y, X_target=np.zeros((20, 2)))
    with pytest.raises(ValueError, match="X_target must be two-dimensional"):
        search.fit(X, y, X_target=np.zeros(20))
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        search.fit(X, y, X_target=X_target, sample_weight=np.zeros(20))
    with pytest.raises(ValueError, match="KNeighborsRegressor.*takes no sample_weight"):
        IWGridSearchCV(KNeighborsRegressor(), {}).fit(X, y, X_target=X_target, sample_weight=np.ones(20))
    with pytest.raises(ValueError, match="n_iter=0: expected an integer >= 1"):
        IWRandomizedSearchCV(Ridge(), {"alpha": [1.0]}, n_iter=0).fit(X, y, X_target=X_target)


def test_candidates_that_all_score_nan_are_an_error():
    X, y, X_target = regression(n=20)
    nan = make_scorer(lambda y, p, sample_weight=None: np.nan)
    with pytest.raises(ValueError, match="every candidate scored NaN"):
        IWGridSearchCV(Ridge(), {"alpha": [1.0]}, scoring=nan, ratio=KnownRatio()).fit(X, y, X_target=X_target)


def test_callers_arrays_and_global_configuration_are_left_alone():
    before = sklearn.get_config()
    X, y, X_target = regression(n=40)
    for array in (X, y, X_target):
        array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        IWGridSearchCV(Ridge(), {"alpha": [1.0]}, ratio=KnownRatio()).fit(X, y, X_target=X_target)
    assert sklearn.get_config() == before
