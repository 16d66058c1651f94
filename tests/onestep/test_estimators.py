"""The estimators against the slow reference, and what their attributes mean."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from sklearn.base import clone
from sklearn.linear_model import Ridge

from covshift import NoTargetWarning, OneStepClassifier, OneStepRegressor
from covshift.datasets import make_toy_regression

pytestmark = pytest.mark.filterwarnings("ignore::covshift.OverlapWarning")

GRID = {"bandwidth_f": "median", "reg_f": (1e-3, 0.1), "reg_g": (0.01, 1.0)}


class Recorded(OneStepRegressor):
    """Keeps the rows, labels and folds of the fit, in the units of the fit."""

    def _folds(self, entry, seed):
        self.entry_, self.folds_ = entry, super()._folds(entry, seed)
        return self.folds_


class RecordedClassifier(OneStepClassifier):
    def _folds(self, entry, seed):
        self.entry_, self.folds_ = entry, super()._folds(entry, seed)
        return self.folds_


def shifted(seed=0, n=40, n_target=30, d=2, noise=0.2):
    rng = np.random.default_rng(seed)
    X, X_target = rng.normal(0, 1, (n, d)) * 3 + 5, rng.normal(0.7, 0.8, (n_target, d)) * 3 + 5
    y = np.sin(X[:, 0] / 3) + 0.3 * X[:, -1] + noise * rng.standard_normal(n)
    return X, y, X_target


def by_reference(model, X, y, X_target, Y, intercept, s=None, query=None):
    """The reference's answer to the same problem: units computed here, centres and folds taken over."""
    X, X_target, query = (np.asarray(rows, dtype=float) for rows in (X, X_target, X if query is None else query))
    if model.standardize:
        n_s = np.ones(len(X)) if s is None else s
        share = np.concatenate([n_s, np.ones(len(X_target))])
        pooled = np.vstack([X, X_target])
        middle = np.average(pooled, axis=0, weights=share)
        spread = np.sqrt(np.average((pooled - middle) ** 2, axis=0, weights=share))
    else:
        middle, spread = np.zeros(X.shape[1]), np.ones(X.shape[1])
    rows_target = model.entry_.sample.X_target
    order = np.lexsort(((X_target - middle) / spread).T[::-1])
    np.testing.assert_allclose(rows_target, ((X_target - middle) / spread)[order], atol=1e-12)
    columns = {name: model.cv_results_[f"param_{name}"] for name in ("bandwidth_f", "bandwidth_g", "reg_f", "reg_g")}
    grid = [list(dict.fromkeys(columns[name].tolist())) for name in columns]
    return reference.fit_everything(
        (X - middle) / spread,
        Y,
        rows_target,
        (model.centers_ - middle) / spread,
        [(f.train, f.test, f.target_train, f.target_test) for f in model.folds_],
        grid,
        criterion=model.criterion_,
        selection=model.selection,
        v=model.variance_weight,
        sharpness=model.sharpness,
        intercept=intercept,
        s=s,
        query=(query - middle) / spread,
        loss=model.loss,
        scale=model.loss_scale_,
        shrink=model.shrink,
        start=model.start,
        max_iter=model.max_iter,
        tol=model.tol,
        coupling=model.coupling,
    )


def assert_same(model, expected, f, g, atol=1e-8):
    np.testing.assert_allclose(model.cv_results_["score"], expected["scores"], rtol=1e-7, atol=1e-9)
    order = sorted(expected["q"], key=lambda c: expected["scores"][c])
    np.testing.assert_allclose(model.averaging_weights_, [expected["q"][c] for c in order], atol=1e-6)
    np.testing.assert_allclose(f, expected["f"], atol=atol)
    np.testing.assert_allclose(g, expected["g"], atol=atol)
    history = [(entry["objective"], entry["objective_unclipped"]) for entry in model.history_]
    np.testing.assert_allclose(history, expected["history"], rtol=1e-7, atol=1e-9)
    assert model.n_iter_ == len(expected["history"])


@pytest.mark.parametrize("shrink", ["one", "zero"])
@pytest.mark.parametrize("criterion", ["corrected", "objective"])
@pytest.mark.parametrize(
    ("selection", "v", "sharpness"), [("average", 0.5, 0.5), ("average", 1.0, 0.03), ("best", 0, 0)]
)
def test_regressor_is_the_reference(shrink, criterion, selection, v, sharpness):
    X, y, X_target = shifted()
    model = Recorded(
        shrink=shrink, criterion=criterion, selection=selection, variance_weight=v, sharpness=sharpness, n_centers=8,
        cv=3, random_state=1, **GRID,
    ).fit(X, y, X_target=X_target)  # fmt: skip
    Y = ((y - y.mean()) / y.std())[:, None]
    expected = by_reference(model, X, y, X_target, Y, True)
    assert_same(model, expected, (model.predict(X)[:, None] - y.mean()) / y.std(), model.weights_)
    np.testing.assert_array_equal(model.weights_, model.predict_weights(X))


@pytest.mark.parametrize(
    ("loss", "loss_scale", "standardize", "start", "coupling"),
    [
        ("tukey", "auto", True, "loss_free", 1.0),
        ("tukey", 0.3, False, "zero", 1.0),
        ("welsch", 0.5, True, "zero", 1.0),
        ("welsch", "auto", False, "loss_free", 1.0),
        ("squared", 0.2, True, "loss_free", 1.0),
        ("squared", 2.0, False, "zero", 5.0),
        ("squared", "auto", True, "loss_free", 0.0),
    ],
)
def test_losses_scales_starts_and_couplings_are_the_references(loss, loss_scale, standardize, start, coupling):
    X, y, X_target = shifted(seed=3)
    y[:3] += 6.0  # outliers, so that the robust losses differ from the squared one
    if not standardize:
        X, X_target = X / 3, X_target / 3
    model = Recorded(
        loss, loss_scale=loss_scale, standardize=standardize, start=start, coupling=coupling, n_centers=7, cv=2,
        max_iter=5, random_state=0, **GRID,
    ).fit(X, y, X_target=X_target)  # fmt: skip
    middle, spread = (y.mean(), y.std()) if standardize else (0.0, 1.0)
    expected = by_reference(model, X, y, X_target, ((y - middle) / spread)[:, None], standardize)
    assert_same(model, expected, (model.predict(X)[:, None] - middle) / spread, model.weights_, atol=2e-6)


@pytest.mark.parametrize("shrink", ["one", "zero"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifier_with_the_squared_loss_is_the_reference(shrink, n_classes):
    X, y, X_target = shifted(seed=5)
    codes = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    model = RecordedClassifier(shrink=shrink, n_centers=8, cv=3, selection="average", random_state=2, **GRID).fit(
        X, np.array(["a", "b", "c"])[codes], X_target=X_target
    )
    if n_classes == 2:
        Y = np.where(codes == 1, 1.0, -1.0)[:, None]
    else:
        Y = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    expected = by_reference(model, X, y, X_target, Y, False)
    assert_same(model, expected, model.decision_function(X).reshape(len(X), -1), model.weights_)
    best = (expected["f"][:, 0] > 0).astype(int) if n_classes == 2 else expected["f"].argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[best])


def test_frequencies_are_the_references():
    X, y, X_target = shifted(seed=6)
    s = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    model = Recorded(n_centers=8, cv=3, random_state=1, **GRID).fit(X, y, X_target=X_target, sample_weight=s)
    middle = np.average(y, weights=s)
    spread = np.sqrt(np.average((y - middle) ** 2, weights=s))
    expected = by_reference(model, X, y, X_target, ((y - middle) / spread)[:, None], True, s=s)
    assert_same(model, expected, (model.predict(X)[:, None] - middle) / spread, model.weights_)


def literal(toy, **overrides):
    model = Recorded.from_paper(random_state=0, **overrides).fit(toy.X, toy.y, X_target=toy.X_target)
    expected = by_reference(model, toy.X, toy.y, toy.X_target, toy.y[:, None], False, query=toy.X_target)
    np.testing.assert_allclose(model.cv_results_["score"], expected["scores"], rtol=1e-7, atol=1e-9)
    (best,) = expected["q"]
    assert model.best_params_ == model.cv_results_["params"][best]
    np.testing.assert_allclose(model.predict(toy.X_target), expected["f"][:, 0], atol=1e-8)
    np.testing.assert_allclose(model.predict_weights(toy.X_target), expected["g"], atol=1e-8)
    return model, expected


def test_literal_algorithm_chooses_the_candidate_of_the_literal_loop():
    toy = make_toy_regression(60, 50, 0, random_state=4)
    model, expected = literal(toy, reg_f=np.logspace(-3, 0, 4), reg_g=np.logspace(-3, 0, 4), n_centers=20)
    assert 1 < model.n_iter_ == len(expected["history"]) <= 10  # fewer than ten only at an exact fixed point
    rows = np.vstack([toy.X, toy.X_target])
    assert model.best_params_["bandwidth_f"] == pytest.approx(np.median(np.abs(rows - model.centers_.T)))
    assert set(model.centers_[:, 0]) <= set(toy.X_target[:, 0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_literal_algorithm_is_the_literal_loop_at_full_size(seed):
    model, _ = literal(make_toy_regression(150, 150, 0, random_state=seed))
    assert len(model.cv_results_["score"]) == 49


def test_infinite_reg_g_is_unweighted_ridge():
    X, y, X_target = shifted(seed=7)
    model = OneStepRegressor(reg_g=np.inf, reg_f=0.01, n_centers=10, random_state=0).fit(X, y, X_target=X_target)
    pooled = np.vstack([X, X_target])
    middle, spread = pooled.mean(axis=0), pooled.std(axis=0)
    sigma = model.best_params_["bandwidth_f"]

    def features(rows):
        return reference.gaussians((rows - middle) / spread, (model.centers_ - middle) / spread, sigma)

    ridge = Ridge(alpha=0.01 * len(y) * 1.0).fit(features(X), (y - y.mean()) / y.std())
    np.testing.assert_allclose(model.predict(X), ridge.predict(features(X)) * y.std() + y.mean(), atol=1e-8)
    np.testing.assert_array_equal(model.weights_, 1.0)
    assert not model.adapted_
    assert model.ess_ == pytest.approx(len(y))
    assert model.max_weight_share_ == pytest.approx(1 / len(y))


def test_without_coupling_g_never_sees_losses():
    X, y, X_target = shifted(seed=8)
    fixed = {"reg_f": 0.01, "reg_g": 0.1, "n_centers": 10, "random_state": 0}
    one = OneStepRegressor(coupling=0.0, **fixed).fit(X, y, X_target=X_target)
    other = OneStepRegressor(coupling=0.0, **fixed).fit(X, y[::-1] ** 3, X_target=X_target)
    np.testing.assert_array_equal(one.weights_, other.weights_)
    coupled = OneStepRegressor(coupling=1.0, **fixed).fit(X, y, X_target=X_target)
    assert np.abs(coupled.weights_ - one.weights_).max() > 1e-3


def test_two_classes_one_against_the_rest_are_the_binary_fit():
    """With t = -+1 for two outputs f_2 = -f_1 and 1/2 sum_k (f_k - t_k)^2 = (1 - y f)^2."""
    X, y, X_target = shifted(seed=9)
    codes = (y > np.median(y)).astype(int)

    class TwoOutputs(OneStepClassifier):
        def _code_labels(self, y, s):
            return np.where(y[:, None] == np.arange(2), 1.0, -1.0), 0.0, 1.0

    how = {"n_centers": 10, "selection": "average", "random_state": 0, **GRID}
    binary = OneStepClassifier(**how).fit(X, codes, X_target=X_target)
    double = TwoOutputs(**how).fit(X, codes, X_target=X_target)
    np.testing.assert_allclose(double.cv_results_["score"], binary.cv_results_["score"], atol=1e-9)
    np.testing.assert_allclose(double.weights_, binary.weights_, atol=1e-9)
    np.testing.assert_allclose(double.decision_function(X), 2 * binary.decision_function(X), atol=1e-9)


def test_history_is_the_objective_of_the_fitted_model():
    X, y, X_target = shifted(seed=10)
    for shrink in ("one", "zero"):
        model = OneStepRegressor(
            shrink=shrink, reg_f=0.01, reg_g=0.1, n_centers=10, random_state=0, max_iter=6, tol=0.0
        ).fit(X, y, X_target=X_target)
        l = ((model.predict(X) - y) / y.std()) ** 2
        w, w_target = model.weights_, model.predict_weights(X_target)
        J = np.mean(l * w) ** 2 + np.mean(w**2) - 2 * np.mean(w_target)
        assert model.history_[-1]["objective"] == pytest.approx(J, rel=1e-9)
        assert [entry["round"] for entry in model.history_] == [1, 2, 3, 4, 5, 6]
    assert model.history_[-1]["objective_unclipped"] != pytest.approx(J, abs=1e-6)


def test_all_rounds_stop_by_the_change_of_the_objective():
    X, y, X_target = shifted(seed=10)
    model = OneStepRegressor(reg_f=0.01, reg_g=0.1, n_centers=10, random_state=0, max_iter=50, tol=1e-3)
    J = [entry["objective"] for entry in model.fit(X, y, X_target=X_target).history_]
    changes = np.abs(np.diff(J)) / np.maximum(np.abs(J[1:]), 1.0)
    assert len(J) < 50
    assert changes[-1] <= 1e-3
    assert (changes[:-1] > 1e-3).all()


def test_scale_by_mad_is_that_of_an_unweighted_pilot():
    X, y, X_target = shifted(seed=11, n=60)
    how = {"n_centers": 10, "bandwidth_f": "median", "reg_f": 0.01, "random_state": 0, "cv": 4}
    model = Recorded("tukey", loss_scale="mad", reg_g=0.1, **how).fit(X, y, X_target=X_target)
    sample, z = model.entry_.sample, (y - y.mean()) / y.std()
    Phi = sample.basis.transform(sample.X, model.best_params_["bandwidth_f"])
    residuals = np.zeros(len(y))
    for fold in model.folds_:
        alpha = reference.ridge(
            Phi[fold.train], z[fold.train, None], np.ones(len(fold.train)), 0.01, np.ones(len(fold.train)), True
        )
        residuals[fold.test] = z[fold.test] - reference.predict(Phi[fold.test], alpha, True)[:, 0]
    assert model.loss_scale_ == pytest.approx(1.4826 * np.median(np.abs(residuals)), rel=1e-8)


def test_ulsif_heuristic_fixes_both_hyperparameters_of_g():
    X, y, X_target = shifted(seed=12, n=80, n_target=80)
    model = OneStepRegressor(bandwidth_g="ulsif", reg_g="ulsif", n_centers=15, random_state=0).fit(
        X, y, X_target=X_target
    )
    assert len(set(model.cv_results_["param_bandwidth_g"])) == len(set(model.cv_results_["param_reg_g"])) == 1
    unweighted = OneStepRegressor(bandwidth_g="ulsif", reg_g=np.inf, n_centers=15, random_state=0)
    assert not unweighted.fit(X, y, X_target=X_target).adapted_


def test_coefficients_are_those_of_the_basis():
    X, y, X_target = shifted(seed=13)
    model = OneStepRegressor(standardize=False, selection="best", n_centers=12, random_state=0, **GRID).fit(
        X, y, X_target=X_target
    )
    Phi = reference.gaussians(X, model.centers_, model.best_params_["bandwidth_f"])
    np.testing.assert_allclose(Phi @ model.coef_ + model.intercept_, model.predict(X), atol=1e-8)
    Psi = reference.gaussians(X, model.centers_, model.best_params_["bandwidth_g"])
    np.testing.assert_allclose(np.maximum(1 + Psi @ model.ratio_coef_, 0), model.weights_, atol=1e-9)


def test_coefficients_of_an_average():
    X, y, X_target = shifted(seed=13, noise=1.0)
    one = OneStepRegressor(n_centers=12, random_state=0, **GRID).fit(X, y, X_target=X_target)
    c = len(one.averaging_weights_)
    assert c > 1
    assert one.averaging_weights_.sum() == pytest.approx(1.0)
    assert (np.diff(one.averaging_weights_) <= 0).all()
    assert (one.averaging_weights_ >= 1e-3 * one.averaging_weights_[0]).all()
    assert one.coef_.shape == (12,)
    assert one.ratio_coef_.shape == (c, 12)
    zero = clone(one).set_params(shrink="zero").fit(X, y, X_target=X_target)
    assert zero.ratio_coef_.shape == (12,)
    several = clone(one).set_params(bandwidth_f=(1.0, 1.01)).fit(X, y, X_target=X_target)
    assert several.cv_results_["param_bandwidth_f"].size == 8
    assert several.coef_.shape == (len(several.averaging_weights_), 12)


def test_without_target_the_model_is_the_unweighted_learner():
    X, y, _ = shifted(seed=14)
    with pytest.warns(NoTargetWarning, match=r"fit\(X, y, X_target=\.\.\.\)") as record:
        model = OneStepRegressor(n_centers=10, random_state=0).fit(X, y)
    assert len([w for w in record if w.category is NoTargetWarning]) == 1
    np.testing.assert_array_equal(model.weights_, 1.0)
    np.testing.assert_array_equal(model.predict_weights(X * 100), 1.0)
    assert not model.adapted_
    assert model.score(X, y) > 0.5


def test_random_state_gives_the_same_bits_and_leaves_the_global_generator_alone():
    X, y, X_target = shifted(seed=15)
    before = np.random.get_state()[1].copy()
    one = OneStepRegressor(random_state=5).fit(X, y, X_target=X_target)
    two = OneStepRegressor(random_state=5).fit(X, y, X_target=X_target)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert np.abs(OneStepRegressor(random_state=6).fit(X, y, X_target=X_target).predict(X) - one.predict(X)).max() > 0


def test_threads_give_the_same_numbers():
    X, y, X_target = shifted(seed=16)
    one = OneStepRegressor(random_state=0).fit(X, y, X_target=X_target)
    two = OneStepRegressor(random_state=0, n_jobs=2).fit(X, y, X_target=X_target)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_no_shift_costs_next_to_nothing():
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(5):
        X, X_target = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
        y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
        adapted = OneStepRegressor(random_state=0).fit(X, y, X_target=X_target)
        plain = OneStepRegressor(reg_g=np.inf, random_state=0).fit(X, y, X_target=X_target)
        errors.append([np.mean((m.predict(X_target) - np.sin(X_target[:, 0])) ** 2) for m in (adapted, plain)])
        assert 0.8 < adapted.weights_.mean() < 1.2
    ours, unweighted = np.mean(errors, axis=0)
    assert ours <= 1.1 * unweighted


def test_verbose_speaks_on_stderr_only(capsys):
    X, y, X_target = shifted()
    model = OneStepRegressor(verbose=1, random_state=0).fit(X, y, X_target=X_target)
    out, err = capsys.readouterr()
    assert out == ""
    third = len(model.cv_results_["score"]) // 3
    assert f"[OneStepRegressor] bandwidth_f 2/3: {third} candidates on 5 folds" in err
