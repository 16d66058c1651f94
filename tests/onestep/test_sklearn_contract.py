"""scikit-learn's own checks, its searches around our estimators, its metadata routing, and frames."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from covshift import NoTargetWarning, OneStepClassifier, OneStepRegressor, Target

pytestmark = pytest.mark.filterwarnings("ignore::covshift.OverlapWarning")

SMALL = {"n_centers": 20, "reg_f": 1e-3, "reg_g": (0.1, 10.0), "cv": 3, "random_state": 0}


@pytest.mark.filterwarnings("ignore::covshift.NoTargetWarning")
@parametrize_with_checks(
    [
        OneStepRegressor(),
        OneStepRegressor("tukey", **SMALL | {"reg_f": 1e-4}),
        OneStepClassifier(),
        OneStepClassifier("hinge", **SMALL),
        OneStepClassifier("logistic", **SMALL),
        OneStepClassifier("cross_entropy", **SMALL),
    ]
)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


class Watching(OneStepRegressor):
    """Notes how many target rows each fit was given."""

    seen: list[int] = []

    def fit(self, X, y, *, X_target=None, sample_weight=None):
        Watching.seen.append(len(X_target.X if isinstance(X_target, Target) else X_target))
        return super().fit(X, y, X_target=X_target, sample_weight=sample_weight)


@pytest.fixture
def pair():
    """As many target rows as source rows: the size at which scikit-learn would cut the target into folds."""
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(0, 1, (150, 2)), rng.normal(1, 1, (150, 2))
    Watching.seen = []
    return X, X[:, 0] + 0.1 * rng.standard_normal(150), X_target


def test_grid_search_hands_over_the_whole_target_in_every_fit(pair):
    X, y, X_target = pair
    search = GridSearchCV(Watching(reg_f=0.1, random_state=0, cv=2), {"reg_g": [0.1, 1.0]}, cv=3)
    search.fit(X, y, X_target=Target(X_target))
    assert Watching.seen == [150] * 7
    direct = OneStepRegressor(reg_f=0.1, cv=2, random_state=0, **search.best_params_).fit(X, y, X_target=X_target)
    np.testing.assert_array_equal(search.predict(X), direct.predict(X))


def test_a_bare_target_of_equal_length_would_be_cut(pair):
    """The trap that Target is for: where this fails scikit-learn has changed, and the documentation should too."""
    X, y, X_target = pair
    GridSearchCV(Watching(reg_f=0.1, reg_g=1.0, cv=2), {"reg_f": [0.1]}, cv=3).fit(X, y, X_target=X_target)
    assert Watching.seen == [100] * 3 + [150]


def test_cross_validation_with_a_target(pair):
    X, y, X_target = pair
    model = Watching(reg_f=0.1, reg_g=1.0, cv=2, random_state=0)
    scores = cross_validate(model, X, y, params={"X_target": Target(X_target)}, cv=3)
    assert Watching.seen == [150] * 3
    assert np.isfinite(scores["test_score"]).all()


def test_metadata_routing_when_switched_on(pair):
    X, y, X_target = pair
    s = np.ones(150)
    with sklearn.config_context(enable_metadata_routing=True):
        model = Watching(reg_f=0.1, cv=2, random_state=0).set_fit_request(X_target=True, sample_weight=True)
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"reg_g": [0.1, 1.0]}, cv=3)
        search.fit(X, y, X_target=Target(X_target), sample_weight=s)
        assert Watching.seen == [150] * 7
        unasked = GridSearchCV(Watching(reg_f=0.1), {"reg_g": [0.1]}, cv=3)
        with pytest.raises(Exception, match="X_target.*not explicitly set as requested"):
            unasked.fit(X, y, X_target=Target(X_target))
    assert not sklearn.get_config()["enable_metadata_routing"]


def test_fitting_does_not_touch_scikit_learns_settings(pair):
    X, y, X_target = pair
    before = sklearn.get_config()
    OneStepRegressor(random_state=0).fit(X, y, X_target=X_target)
    assert sklearn.get_config() == before


def test_as_the_last_step_of_a_pipeline_the_target_goes_in_by_step_name(pair):
    X, y, X_target = pair
    scaler = StandardScaler().fit(X)
    pipe = make_pipeline(StandardScaler(), OneStepRegressor(reg_f=0.1, reg_g=1.0, random_state=0))
    pipe.fit(X, y, onestepregressor__X_target=Target(scaler.transform(X_target)))
    direct = OneStepRegressor(reg_f=0.1, reg_g=1.0, random_state=0)
    direct.fit(scaler.transform(X), y, X_target=scaler.transform(X_target))
    np.testing.assert_allclose(pipe.predict(X), direct.predict(scaler.transform(X)))


def test_a_target_is_opaque():
    held = Target(np.zeros((3, 2)))
    assert not hasattr(held, "__len__")
    assert not hasattr(held, "shape")
    assert clone(held, safe=False) is held
    assert Target(held).X is held.X
    assert repr(held) == "Target(3 rows)"
    assert repr(Target([[1], [2]])) == "Target(2 rows)"


def test_without_a_target_cross_validation_says_so_once_a_fit():
    X, y = make_regression(60, 3, random_state=0)
    with pytest.warns(NoTargetWarning) as record:
        cross_val_score(OneStepRegressor(**SMALL), X, y, cv=3)
    assert sum(w.category is NoTargetWarning for w in record) == 3


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_compared_by_column_name(library, pair):
    frames = pytest.importorskip(library)
    X, y, X_target = pair

    def frame(rows, names=("a", "b")):
        return frames.DataFrame({name: rows[:, j] for j, name in enumerate(names)})

    model = OneStepRegressor(reg_f=0.1, reg_g=1.0, random_state=0)
    by_frame = clone(model).fit(frame(X), y, X_target=frame(X_target))
    np.testing.assert_allclose(
        by_frame.predict(frame(X)), clone(model).fit(X, y, X_target=X_target).predict(X), rtol=1e-12
    )
    np.testing.assert_array_equal(by_frame.feature_names_in_, ["a", "b"])
    np.testing.assert_array_equal(
        clone(model).fit(frame(X), y, X_target=Target(frame(X_target))).weights_, by_frame.weights_
    )
    for names, complaint in (
        (("b", "a"), "must be in the same order"),
        (("a", "c"), "Feature names unseen at fit time"),
    ):
        with pytest.raises(ValueError, match=rf"(?s)^X_target: .*{complaint}.*the target needs the source's columns"):
            clone(model).fit(frame(X), y, X_target=frame(X_target, names))
        with pytest.raises(ValueError, match=complaint):
            by_frame.predict_weights(frame(X, names))
    labels = frames.Series("y", y) if library == "polars" else frames.Series(y)
    np.testing.assert_array_equal(
        clone(model).fit(frame(X), labels, X_target=frame(X_target)).weights_, by_frame.weights_
    )


def test_names_on_one_side_only_are_said(pair):
    pandas = pytest.importorskip("pandas")
    X, y, X_target = pair
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        OneStepRegressor(reg_f=0.1, reg_g=1.0).fit(pandas.DataFrame(X, columns=["a", "b"]), y, X_target=X_target)


def test_tensors_on_the_processor_are_rows(pair):
    torch = pytest.importorskip("torch")
    X, y, X_target = pair
    model = OneStepRegressor(reg_f=0.1, reg_g=1.0, random_state=0)
    by_tensor = clone(model).fit(torch.tensor(X), torch.tensor(y), X_target=torch.tensor(X_target))
    np.testing.assert_array_equal(by_tensor.weights_, clone(model).fit(X, y, X_target=X_target).weights_)
    assert isinstance(by_tensor.predict(torch.tensor(X)), np.ndarray)
