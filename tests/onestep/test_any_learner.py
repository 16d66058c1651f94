"""`OneStep`: any learner as f gives what the same loop written by hand gives."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import reference
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from covshift import NoTargetWarning, OneStep, Target
from covshift.exceptions import AllWeightsZeroError

pytestmark = pytest.mark.filterwarnings("ignore::covshift.OverlapWarning", "ignore:n_centers")

FEW = {"n_centers": 10, "cv": 3, "random_state": 0}


def shifted(seed=0, n=60, n_target=50):
    rng = np.random.default_rng(seed)
    X, X_target = rng.normal(0, 1, (n, 2)), rng.normal(0.8, 0.8, (n_target, 2))
    return X, X[:, 0] ** 2 + 0.3 * (1 + 2 * (X[:, 1] > 0)) * rng.standard_normal(n), X_target


class Recorded(OneStep):
    def _search(self, entry, folds, learner):
        self.entry_, self.folds_ = entry, folds
        super()._search(entry, folds, learner)


def by_hand(model, learner, X, y, reg_g, shrink):
    """The alternation on out-of-fold losses of `learner`, a function of nothing that gives a fresh one."""
    sample, sigma = model.entry_.sample, model.best_params_["bandwidth_g"]
    Psi = reference.gaussians(sample.X, sample.basis.centers, sigma)
    Psi_target = reference.gaussians(sample.X_target, sample.basis.centers, sigma)
    l, rounds, previous = np.zeros(len(y)), [], np.inf
    for _ in range(model.max_iter):
        _, beta = reference.g_step(Psi, Psi_target, l, reg_g, shrink, np.ones(len(y)))
        w = reference.importance(Psi, beta, shrink)
        for fold in model.folds_:
            f = learner()
            last = f.steps[-1][0] + "__" if hasattr(f, "steps") else ""
            f.fit(X[fold.train], y[fold.train], **{f"{last}sample_weight": w[fold.train]})
            l[fold.test] = ((f.predict(X[fold.test]) - y[fold.test]) / y.std()) ** 2
        J = reference.objective(l, w, reference.importance(Psi_target, beta, shrink), np.ones(len(y)))
        rounds.append((w, J))
        if abs(J - previous) <= model.tol * max(abs(J), 1):
            break
        previous = J
    f = learner()
    f.fit(X, y, **{f"{last}sample_weight": rounds[-1][0]})
    return f, rounds


@pytest.mark.parametrize("shrink", ["one", "zero"])
@pytest.mark.parametrize(
    "learner",
    [lambda: Ridge(0.1), lambda: make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge(0.1))],
    ids=["ridge", "pipeline"],
)
def test_fit_is_the_loop_written_by_hand(shrink, learner):
    X, y, X_target = shifted()
    model = Recorded(learner(), shrink=shrink, reg_g=0.1, tol=0.0, max_iter=4, **FEW).fit(X, y, X_target=X_target)
    f, rounds = by_hand(model, learner, X, y, 0.1, shrink)
    np.testing.assert_allclose(model.predict(X_target), f.predict(X_target), atol=1e-8)
    np.testing.assert_allclose(model.weights_, rounds[-1][0], atol=1e-8)
    np.testing.assert_allclose([entry["objective"] for entry in model.history_], [J for _, J in rounds], rtol=1e-8)
    unweighted = learner().fit(X, y)
    assert np.abs(model.predict(X_target) - unweighted.predict(X_target)).max() > 1e-3


def test_weights_change_between_rounds_because_of_the_losses():
    X, y, X_target = shifted()
    how = {"reg_g": 0.1, "tol": 0.0, **FEW}
    first, third = (OneStep(Ridge(), max_iter=t, **how).fit(X, y, X_target=X_target) for t in (1, 3))
    assert np.abs(first.weights_ - third.weights_).max() > 1e-2
    assert (first.n_iter_, third.n_iter_) == (1, 3)
    control = OneStep(Ridge(), coupling=0.0, max_iter=3, **how).fit(X, y, X_target=X_target)
    np.testing.assert_array_equal(control.weights_, first.weights_)


def test_losses_on_own_rows_are_another_model():
    X, y, X_target = shifted()
    deep = HistGradientBoostingRegressor(max_iter=30, min_samples_leaf=2, random_state=0)
    inside, outside = (
        OneStep(deep, out_of_fold=out_of_fold, reg_g=0.1, max_iter=2, tol=0.0, **FEW).fit(X, y, X_target=X_target)
        for out_of_fold in (False, True)
    )
    assert np.abs(inside.weights_ - outside.weights_).max() > 1e-2


@pytest.mark.parametrize(
    ("learner", "labels"),
    [
        (Ridge(), lambda y: y),
        (HistGradientBoostingRegressor(max_iter=5), lambda y: y),
        (LogisticRegression(), lambda y: np.where(y > 0.5, "b", "a")),
        (HistGradientBoostingClassifier(max_iter=5), lambda y: np.digitize(y, [0.2, 1.0])),
        (make_pipeline(StandardScaler(), LogisticRegression()), lambda y: y > 0.5),
    ],
    ids=["ridge", "boosting", "logistic", "boosting-classes", "pipeline"],
)
@pytest.mark.parametrize("selection", ["best", "average"])
def test_learners_of_all_kinds_fit(learner, labels, selection):
    X, y, X_target = shifted()
    y = labels(y)
    model = OneStep(learner, selection=selection, reg_g=(0.1, 10.0), **FEW).fit(X, y, X_target=Target(X_target))
    assert model.predict(X_target).shape == (50,)
    assert (model.predict_weights(X_target) >= 0).all()
    assert model.averaging_weights_.sum() == pytest.approx(1.0)
    assert 0 < model.ess_ <= 60 + 1e-9
    assert 0 < model.max_weight_share_ <= 1
    assert model.score(X, y) > 0
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X_target), model.predict(X_target))
    if hasattr(learner, "predict_proba"):
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_zero_frequency_is_absence():
    X, y, X_target = shifted()
    there = np.arange(60) % 3 > 0
    X_strange = np.where(there[:, None], X, 1e5)
    weighted = OneStep(Ridge(), **FEW).fit(X_strange, y, X_target=X_target, sample_weight=there.astype(float))
    absent = OneStep(Ridge(), **FEW).fit(X[there], y[there], X_target=X_target)
    np.testing.assert_allclose(weighted.predict(X), absent.predict(X), atol=1e-9)
    codes = np.where(there, (y > 0.5).astype(int), 2)
    model = OneStep(LogisticRegression(), **FEW)
    model.fit(X, codes, X_target=X_target, sample_weight=there.astype(float))
    np.testing.assert_array_equal(model.classes_, [0, 1])


@pytest.mark.parametrize("selection", ["best", "average"])
def test_frequencies_are_repeated_rows_and_order_does_not_matter(selection):
    X, y, X_target = shifted(seed=1, n=40)
    rng = np.random.default_rng(0)
    s = rng.integers(1, 4, 40)
    model = OneStep(Ridge(), selection=selection, **FEW)
    weighted = model.fit(X, y, X_target=X_target, sample_weight=s).predict(X)
    repeated = model.fit(np.repeat(X, s, axis=0), np.repeat(y, s), X_target=X_target).predict(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-8)
    p = rng.permutation(40)
    permuted = model.fit(X[p], y[p], X_target=X_target[::-1], sample_weight=s[p]).predict(X)
    np.testing.assert_allclose(permuted, weighted, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_huge_and_tiny_labels_change_units_only(scale):
    X, y, X_target = shifted()
    plain = OneStep(Ridge(), **FEW).fit(X, y, X_target=X_target)
    labels = OneStep(Ridge(), **FEW).fit(X, y * scale, X_target=X_target)
    np.testing.assert_allclose(labels.predict(X) / scale, plain.predict(X), rtol=1e-6)
    np.testing.assert_allclose(labels.weights_, plain.weights_, rtol=1e-6)


def test_frames_reach_f_unconverted_and_g_sees_numbers():
    pandas = pytest.importorskip("pandas")
    X, y, X_target = shifted()

    def frame(rows):
        return pandas.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "c": np.where(rows[:, 1] > 0, "red", "blue")})

    by_kind = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["c"]), remainder="passthrough"
    )
    pipe = make_pipeline(by_kind, Ridge())
    with pytest.raises(ValueError, match="g takes numbers, and these columns are none: c. Give transformer_g="):
        OneStep(pipe, **FEW).fit(frame(X), y, X_target=frame(X_target))
    numbers = make_column_transformer(("passthrough", make_column_selector(dtype_include=float)))
    model = OneStep(pipe, transformer_g=numbers, **FEW).fit(frame(X), y, X_target=frame(X_target))
    plain = OneStep(Ridge(), **FEW).fit(X, y, X_target=X_target)
    np.testing.assert_allclose(model.centers_, plain.centers_)
    assert model.predict(frame(X_target)).shape == (50,)
    with pytest.raises(ValueError, match="feature names|Feature names"):
        model.predict(frame(X_target)[["b", "a", "c"]])


def test_a_learner_without_weights_is_refused_before_anything_is_computed():
    X, y, _ = shifted()
    for learner in (KNeighborsRegressor(), make_pipeline(StandardScaler(), KNeighborsRegressor())):
        with pytest.raises(ValueError, match="cannot be importance-weighted: its fit takes no sample_weight"):
            OneStep(learner).fit(X, y, X_target="never looked at")


def test_a_candidate_without_weight_in_a_fold_loses_and_only_all_are_an_error():
    X, y, X_target = shifted()
    how = {"shrink": "zero", "centers": "target", **FEW}
    model = OneStep(Ridge(), bandwidth_g=(1e-9, 1.0), reg_g=0.1, **how).fit(X, y, X_target=X_target)
    assert np.isinf(model.cv_results_["score"][0])
    assert model.best_params_["bandwidth_g"] == 1.0
    with pytest.raises(AllWeightsZeroError, match=r"bandwidth_g=\(1e-09,\).*Use a larger bandwidth_g or reg_g"):
        OneStep(Ridge(), bandwidth_g=1e-9, reg_g=0.1, **how).fit(X, y, X_target=X_target)


def test_grid_search_around_it_sees_the_whole_target():
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(0, 1, (150, 1)), rng.normal(1, 1, (150, 1))
    y = X[:, 0] + 0.1 * rng.standard_normal(150)
    search = GridSearchCV(OneStep(Ridge(), reg_g=1.0, **FEW), {"estimator__alpha": [0.1, 1.0]}, cv=3)
    search.fit(X, y, X_target=Target(X_target))
    direct = OneStep(Ridge(**{"alpha": search.best_params_["estimator__alpha"]}), reg_g=1.0, **FEW)
    np.testing.assert_array_equal(search.predict(X), direct.fit(X, y, X_target=X_target).predict(X))


def test_without_a_target_it_is_the_learner():
    X, y, _ = shifted()
    with pytest.warns(NoTargetWarning):
        model = OneStep(LinearRegression(), **FEW).fit(X, y)
    np.testing.assert_allclose(model.predict(X), LinearRegression().fit(X, y).predict(X))
    np.testing.assert_array_equal(model.weights_, 1.0)
    assert not model.adapted_


@pytest.mark.filterwarnings("ignore::covshift.NoTargetWarning")
@parametrize_with_checks([OneStep(Ridge(0.01), cv=2), OneStep(LogisticRegression(), cv=2)])
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
