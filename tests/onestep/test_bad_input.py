"""Bad input gets one sentence: which argument, what value, what to do. Odd but sound input gets an answer."""

from __future__ import annotations

import time
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from covshift import NoTargetWarning, OneStep, OneStepClassifier, OneStepRegressor, OverlapWarning, Target
from covshift.datasets import make_toy_regression
from covshift.exceptions import AllWeightsZeroError

pytestmark = pytest.mark.filterwarnings("ignore::covshift.OverlapWarning")

FIXED = {"reg_f": 0.1, "reg_g": 1.0, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    toy = make_toy_regression(n_eval=0, random_state=0)
    return np.hstack([toy.X, toy.X**2]), toy.y, np.hstack([toy.X_target, toy.X_target**2])


def spoiled(rows, value, at=(3, 1)):
    rows = np.array(rows, dtype=object if isinstance(value, str) else float)
    rows[at] = value
    return rows


def holding(X, y, X_target, **changes):
    return {"X": X, "y": y, "X_target": X_target} | changes


# What the caller does, by words of the message: argument, value, way out.
ROWS = {
    "NaN in X": (lambda X, y, T: holding(spoiled(X, np.nan), y, T), r"Input X contains NaN.*imputer"),
    "inf in X": (lambda X, y, T: holding(spoiled(X, np.inf), y, T), r"Input X contains infinity"),
    "NaN in the target": (lambda X, y, T: holding(X, y, spoiled(T, np.nan)), r"X_target contains NaN.*X_target of"),
    "inf in the target": (lambda X, y, T: holding(X, y, spoiled(T, -np.inf)), r"X_target contains infinity"),
    "NaN in y": (lambda X, y, T: holding(X, spoiled(y, np.nan, 0), T), r"y contains NaN.*drop the rows without one"),
    "inf in y": (lambda X, y, T: holding(X, spoiled(y, np.inf, 0), T), r"y contains infinity.*finite label"),
    "other columns": (
        lambda X, y, T: holding(X, y, T[:, :1]),
        r"X_target has 1 features, but .* expecting 2.*source's",
    ),
    "one row": (lambda X, y, T: holding(X[:1], y[:1], T), r"1 sample\(s\).*minimum of 2.*X: give more labelled"),
    "no row": (lambda X, y, T: holding(X[:0], y[:0], T), r"0 sample\(s\).*minimum of 2.*X: give more labelled"),
    "no target row": (lambda X, y, T: holding(X, y, T[:0]), r"X_target: .*0 sample\(s\).*minimum of 1"),
    "no column": (lambda X, y, T: holding(X[:, :0], y, T[:, :0]), r"0 feature\(s\).*at least one column"),
    "one target row": (
        lambda X, y, T: holding(X, y, T[:1]),
        r"X_target has 1 row.*5 folds.*give more target rows \(kernel estimators with fixed hyperparameters",
    ),
    "lengths": (lambda X, y, T: holding(X, y[:9], T), r"inconsistent numbers of samples: \[150, 9\]"),
    "1-d X": (lambda X, y, T: holding(X[:, 0], y, T), r"Expected 2D array.*reshape\(-1, 1\).*X must be two-dim"),
    "1-d target": (lambda X, y, T: holding(X, y, T[:, 0]), r"X_target must be two-dim.*\(150,\).*reshape\(-1, 1\)"),
    "3-d target": (lambda X, y, T: holding(X, y, T[None]), r"X_target: .*dim 3"),
    "target as y": (lambda X, y, T: {"X": X, "y": T}, r"y has shape \(150, 2\).*fit\(X, y, X_target=\.\.\.\)"),
    "text in X": (lambda X, y, T: holding(spoiled(X, "red"), y, T), r"'red'.*X holds text.*OneHotEncoder"),
    "text in the target": (lambda X, y, T: holding(X, y, spoiled(T, "red")), r"X_target: .*'red'.*source's columns"),
    "text as y": (lambda X, y, T: holding(X, np.where(y > 0, "a", "b"), T), r"could not convert string to float"),
    "no y": (lambda X, y, T: holding(X, None, T), r"requires y to be passed"),
    "several outputs": (lambda X, y, T: holding(X, np.c_[y, y], T), r"y has shape \(150, 2\).*one model each"),
    "equal rows only": (
        lambda X, y, T: holding(np.ones((9, 2)), np.ones(9), T),
        r"X: all 9 source rows and their labels are equal, and cv=5.*rows that differ",
    ),
    "negative weight": (
        lambda X, y, T: holding(X, y, T, sample_weight=np.r_[1.0, -2.0, np.ones(148)]),
        r"sample_weight\[1\]=-2.*weights are frequencies \(>= 0\)",
    ),
    "zero weights": (
        lambda X, y, T: holding(X, y, T, sample_weight=np.zeros(150)),
        r"sample_weight is zero for every row.*at least one row weight",
    ),
    "NaN weight": (
        lambda X, y, T: holding(X, y, T, sample_weight=np.full(150, np.nan)),
        r"sample_weight contains NaN",
    ),
    "weights of another length": (
        lambda X, y, T: holding(X, y, T, sample_weight=np.ones(3)),
        r"sample_weight.shape == \(3,\), expected \(150,\)",
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_bad_rows_are_named(case, data):
    change, message = ROWS[case]
    given = change(*data)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        OneStepRegressor().fit(**given)


def test_the_target_by_position_is_no_argument(data):
    with pytest.raises(TypeError, match="3 positional arguments but 4 were given"):
        OneStepRegressor().fit(*data)


def test_sparse_rows_are_refused_by_name(data):
    X, y, X_target = data
    with pytest.raises(TypeError, match="Sparse data was passed for X.*toarray"):
        OneStepRegressor().fit(sparse.csr_array(X), y, X_target=X_target)
    with pytest.raises(TypeError, match="X_target: Sparse data.*toarray"):
        OneStepRegressor().fit(X, y, X_target=sparse.csr_array(X_target))


PARAMETERS = [
    ({"bandwidth_f": 0}, ValueError, r"bandwidth_f=0: expected a number in \(0, "),
    ({"bandwidth_g": [1.0, -1]}, ValueError, r"bandwidth_g\[1\]=-1: expected a number in \(0, "),
    ({"bandwidth_g": np.nan}, ValueError, r"bandwidth_g=nan"),
    ({"bandwidth_g": "mediam"}, ValueError, r"bandwidth_g='mediam': .*'ulsif'; did you mean 'median'\?"),
    ({"bandwidth_f": "ulsif"}, ValueError, r"bandwidth_f='ulsif': expected one of 'median'"),
    ({"reg_f": 0.0}, ValueError, r"reg_f=0.0: expected a number in \(0"),
    ({"reg_f": np.inf}, ValueError, r"reg_f=inf"),
    ({"reg_f": []}, ValueError, r"reg_f is an empty sequence: give at least one number"),
    ({"reg_f": None}, TypeError, r"reg_f=None: expected a number or a sequence of numbers or 'auto'"),
    ({"reg_f": True}, TypeError, r"reg_f=True"),
    ({"reg_g": np.inf, "shrink": "zero"}, ValueError, r"reg_g=inf"),
    ({"loss": "tuckey"}, ValueError, r"loss='tuckey': .*did you mean 'tukey'\?"),
    ({"loss": "hinge"}, ValueError, r"loss='hinge': expected one of 'squared', 'tukey', 'welsch'"),
    ({"loss_scale": 0}, ValueError, r"loss_scale=0: expected a number in \(0"),
    ({"loss_scale": "mda"}, ValueError, r"loss_scale='mda': .*did you mean 'mad'\?"),
    ({"centers": "targets"}, ValueError, r"centers='targets': .*did you mean 'target'\?"),
    ({"shrink": "two"}, ValueError, r"shrink='two': expected one of 'zero', 'one'"),
    ({"criterion": "best"}, ValueError, r"criterion='best': expected one of 'corrected', 'objective'"),
    ({"selection": "mean"}, ValueError, r"selection='mean': expected one of 'average', 'best'"),
    ({"basis": "gauss"}, ValueError, r"basis='gauss': .*did you mean 'gaussian'\?"),
    ({"start": "random"}, ValueError, r"start='random': expected one of 'loss_free', 'zero'"),
    ({"standardize": "no"}, TypeError, r"standardize='no': expected True or False"),
    ({"n_centers": 0}, ValueError, r"n_centers=0: expected an integer >= 1"),
    ({"n_centers": 2.5}, TypeError, r"n_centers=2.5: expected an integer"),
    ({"max_iter": 0}, ValueError, r"max_iter=0: expected an integer >= 1"),
    ({"tol": -1}, ValueError, r"tol=-1: expected a number in \[0"),
    ({"coupling": -0.5}, ValueError, r"coupling=-0.5"),
    ({"variance_weight": -1}, ValueError, r"variance_weight=-1"),
    ({"sharpness": -1}, ValueError, r"sharpness=-1"),
    ({"cv": 1}, ValueError, r"cv=1: cross-validation needs at least 2 folds; give cv >= 2 or index pairs"),
    ({"cv": 5.0}, ValueError, r"cv=5.0: expected an integer, a splitter with .split, or an iterable"),
    ({"cv": None}, ValueError, r"cv=None: expected an integer"),
    ({"cv": [([0, 1], [900])]}, ValueError, r"cv: pair 0 names row 900, but X has 150 rows"),
    ({"cv": [(np.arange(150), [])]}, ValueError, r"cv: the held-out side of fold 0 has no source rows"),
]


@pytest.mark.parametrize(
    ("changes", "error", "message"), PARAMETERS, ids=lambda v: str(v) if isinstance(v, dict) else ""
)
def test_bad_parameters_are_named(changes, error, message, data):
    X, y, X_target = data
    with pytest.raises(error, match=message):
        OneStepRegressor(**changes).fit(X, y, X_target=X_target)


def test_parameters_are_checked_before_anything_is_computed(data, monkeypatch):
    X, y, X_target = data
    monkeypatch.setattr("covshift.onestep._base.make_entry", lambda *a, **k: pytest.fail("computed"))
    with pytest.raises(ValueError, match="selection="):
        OneStepRegressor(selection="mean").fit(X, y, X_target=X_target)


@pytest.mark.parametrize("bad", [{"loss_scale": "mda"}, {"loss": "tukey"}, {"standardize": 2}])
def test_classifier_checks_the_same_parameters(bad, data):
    X, y, X_target = data
    with pytest.raises((TypeError, ValueError), match=f"{next(iter(bad))}="):
        OneStepClassifier(**bad).fit(X, y > 0, X_target=X_target)


def test_classes(data):
    X, y, X_target = data
    with pytest.raises(ValueError, match=r"y has one class only \(.*1.0\).*at least 2"):
        OneStepClassifier().fit(X, np.ones(150), X_target=X_target)
    with pytest.raises(ValueError, match=r"y has one class only .* among rows with weight"):
        OneStepClassifier().fit(X, y > 0, X_target=X_target, sample_weight=(y > 0).astype(float))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        OneStepClassifier().fit(X, y, X_target=X_target)
    for loss in ("hinge", "logistic"):
        with pytest.raises(ValueError, match=f"loss='{loss}', y has 3 classes: use loss='cross_entropy'"):
            OneStepClassifier(loss).fit(X, np.digitize(y, [0.0, 0.5]), X_target=X_target)


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1], [-1, 1], [3, 7], [False, True]])
def test_any_two_labels_will_do(labels, data):
    X, y, X_target = data
    codes = (y > 0.3).astype(int)
    model = OneStepClassifier(**FIXED).fit(X, np.array(labels)[codes], X_target=X_target)
    expected = OneStepClassifier(**FIXED).fit(X, codes, X_target=X_target)
    np.testing.assert_array_equal(model.predict(X_target), np.array(labels)[expected.predict(X_target)])
    np.testing.assert_array_equal(model.classes_, labels)


@pytest.mark.parametrize("how", [{}, {"reg_f": 1.0, "reg_g": 1.0}])
def test_all_weights_clipped_is_an_error_that_names_bandwidth_and_regularisation(how, data):
    X, y, X_target = data
    model = OneStepRegressor.from_paper(bandwidth_f=1e-9, bandwidth_g=1e-9, random_state=0, **how)
    with pytest.raises(
        AllWeightsZeroError, match=r"(?s)bandwidth_g=1e-09.*reg_g=.*use a larger bandwidth_g or a larger"
    ):
        model.fit(X, y, X_target=X_target + 100)


def test_a_clipped_candidate_loses_to_any_other(data):
    X, y, X_target = data
    model = OneStepRegressor.from_paper(bandwidth_g=(1e-9, 1.0), bandwidth_f=(1e-9, 1.0), random_state=0)
    model.fit(X, y, X_target=X_target)
    table = model.cv_results_
    assert np.isinf(table["score"][table["param_bandwidth_g"] == 1e-9]).all()
    assert np.isfinite(table["score"][table["param_bandwidth_g"] == 1.0]).all()
    assert model.best_params_["bandwidth_g"] == 1.0
    assert model.weights_.any()


@pytest.mark.filterwarnings("ignore:n_centers")
def test_hinge_with_weight_on_one_class_only_says_so():
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(-50, 0.1, (30, 1)), rng.normal(0, 0.1, (30, 1))]
    model = OneStepClassifier.from_paper(
        loss="hinge", bandwidth_f=0.5, bandwidth_g=0.5, reg_f=0.1, reg_g=0.1, cv=2, random_state=0
    )
    with pytest.raises(ValueError, match="loss='hinge': only source rows of one class keep weight.*loss='squared'"):
        model.fit(X, X[:, 0] > -25, X_target=rng.normal(0, 0.1, (40, 1)))


def test_fewer_target_rows_than_centres_borrow_from_the_source(data):
    X, y, X_target = data
    model = OneStepRegressor(**FIXED).fit(X, y, X_target=X_target[:20])
    assert len(model.centers_) == 50
    with pytest.warns(UserWarning, match=r"n_centers=50, but there are only 20 distinct rows.*centers='target'"):
        few = OneStepRegressor(centers="target", **FIXED).fit(X, y, X_target=X_target[:20])
    assert len(few.centers_) == 20


def test_equal_samples_still_give_all_centres(data, recwarn):
    X, y, _ = data
    model = OneStepRegressor(**FIXED).fit(X, y, X_target=X)
    assert len(model.centers_) == 50
    assert not [w for w in recwarn if "n_centers" in str(w.message)]


def test_one_target_row_is_enough_for_fixed_hyperparameters(data):
    X, y, X_target = data
    model = OneStepRegressor(**FIXED).fit(X, y, X_target=X_target[:1])
    assert np.isfinite(model.predict(X)).all()


def test_constant_columns_are_columns_of_zeros(data):
    X, y, X_target = data

    def with_constant(rows):
        return np.hstack([rows, np.full((len(rows), 1), 7e9)])

    plain = OneStepRegressor(**FIXED).fit(X, y, X_target=X_target)
    more = OneStepRegressor(**FIXED).fit(with_constant(X), y, X_target=with_constant(X_target))
    np.testing.assert_allclose(more.predict(with_constant(X)), plain.predict(X), rtol=1e-9)


def test_constant_y_is_predicted(data):
    X, _, X_target = data
    for value in (0.0, 3.0, -1e150):
        model = OneStepRegressor(random_state=0).fit(X, np.full(150, value), X_target=X_target)
        np.testing.assert_allclose(model.predict(X_target), value)
        assert len(model.averaging_weights_) == 1  # S_min is zero: the best candidate alone


@pytest.mark.filterwarnings("ignore:n_centers")
def test_equal_inputs_with_labels_that_differ_predict_their_mean(data):
    y = data[1]
    model = OneStepRegressor(random_state=0).fit(np.ones((150, 2)), y, X_target=np.ones((9, 2)))
    np.testing.assert_allclose(model.predict(np.ones((1, 2))), y.mean(), atol=0.02)
    assert not model.adapted_


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("standardize", [True, False])
def test_huge_and_tiny_scales_change_units_only(scale, standardize, data):
    X, y, X_target = data
    how = {"standardize": standardize, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        plain = OneStepRegressor(**how).fit(X, y, X_target=X_target)
        inputs = OneStepRegressor(**how).fit(X * scale, y, X_target=X_target * scale)
        labels = OneStepRegressor(**how).fit(X, y * scale, X_target=X_target)
    np.testing.assert_allclose(inputs.predict(X_target * scale), plain.predict(X_target), rtol=1e-6, atol=1e-9)
    if standardize:
        np.testing.assert_allclose(labels.predict(X_target), plain.predict(X_target) * scale, rtol=1e-6)
    assert np.isfinite(labels.predict(X_target)).all()
    assert np.isfinite(labels.weights_).all()
    assert 0 <= labels.risk_bound_.value <= 1


def test_threads_are_as_silent_about_overflow_as_one(data):
    X, y, X_target = data
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = OneStepRegressor(standardize=False, n_jobs=2, random_state=0).fit(X, y * 1e150, X_target=X_target)
    assert np.isfinite(model.predict(X_target)).all()


def test_weights_that_rest_on_a_handful_of_rows_are_said():
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(0, 1, (300, 1)), rng.normal(3, 0.2, (300, 1))
    with pytest.warns(OverlapWarning, match=r"300 source rows are worth \d+\.\d rows") as record:
        model = OneStepRegressor(bandwidth_g=0.2, random_state=0).fit(X, X[:, 0], X_target=X_target)
    assert model.ess_ < 0.05 * 300
    assert model.adapted_
    assert model.max_weight_share_ == pytest.approx(model.weights_.max() / model.weights_.sum())
    assert model.ess_ == pytest.approx(model.weights_.sum() ** 2 / (model.weights_**2).sum())
    assert [w for w in record if "beyond the source's support" in str(w.message)] == []


def test_a_target_out_of_reach_is_said_and_nothing_else_is_claimed(data):
    X, y, X_target = data
    with pytest.warns(OverlapWarning, match="100% of the target rows lie beyond the source's support"):
        model = OneStepRegressor(random_state=0).fit(X, y, X_target=X_target + 1e3)
    assert np.abs(model.predict(X_target + 1e3)).max() <= np.abs(y).max() * 1.5
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverlapWarning)
        OneStepRegressor(random_state=0).fit(X, y, X_target=X[::2])


def test_an_empty_holder_is_no_target(data):
    X, y, _ = data
    with pytest.warns(NoTargetWarning):
        OneStepRegressor(**FIXED).fit(X, y, X_target=Target(None))


def big_target(n_target):
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(0, 1, (50, 3)), rng.normal(0.5, 1, (n_target, 3))
    y = X[:, 0] + 0.1 * rng.standard_normal(50)
    tracemalloc.start()
    start = time.perf_counter()
    model = OneStepRegressor(random_state=0).fit(X, y, X_target=X_target)
    seconds, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.score(X, y) > 0.8
    assert np.isfinite(model.predict_weights(X_target)).all()
    return seconds, peak / 2**20


def test_many_more_target_rows_than_source_rows():
    _, mebibytes = big_target(30_000)
    assert mebibytes < 250


@pytest.mark.slow
def test_a_million_target_rows_with_fifty_source_rows():
    seconds, mebibytes = big_target(1_000_000)
    assert seconds < 60
    assert mebibytes < 1200


def test_the_frame_whose_columns_differ_is_named_for_any_learner_too():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X, T = (pandas.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"]) for _ in range(2))
    with pytest.raises(ValueError, match=r"X_target: The feature names.*\n.*same order[\s\S]*source's columns"):
        OneStep(Ridge()).fit(X, X["a"], X_target=T[["b", "a"]])
