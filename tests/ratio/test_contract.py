"""What every ratio estimator promises, over the registry."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from covshift._checks import Target
from covshift.exceptions import AllWeightsZeroError, NoTargetWarning, OverlapWarning
from covshift.ratio import RATIOS

ALL = sorted(RATIOS)


def make(name, **parameters):
    ratio = RATIOS[name](**parameters)
    return ratio.set_params(random_state=0) if "random_state" in ratio.get_params() else ratio


def samples(n_source=60, n_target=50, d=2, shift=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_source, d)), rng.normal(size=(n_target, d)) + shift * (np.arange(d) == 0)


@pytest.fixture(params=ALL)
def name(request):
    return request.param


@pytest.mark.filterwarnings("ignore::covshift.exceptions.NoTargetWarning")
def test_sklearn_checks(name):
    check_estimator(make(name))


def test_without_target_the_ratio_is_one_and_says_so_once(name):
    X, T = samples()
    with pytest.warns(NoTargetWarning, match="X_target=") as said:
        ratio = make(name).fit(X)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert np.array_equal(ratio.weights_, np.ones(60))
    assert np.array_equal(ratio.predict(T), np.ones(50))
    assert (ratio.divergence_, ratio.score(T), ratio.adapted_, ratio.ess_) == (0.0, 0.0, False, 60.0)


def test_weights_are_finite_and_never_negative(name):
    for seed in range(3):
        X, T = samples(seed=seed)
        ratio = make(name).fit(X, X_target=T)
        far = np.array([[50.0, 50.0], [-8.0, 3.0]])
        for w in (ratio.weights_, ratio.predict(X), ratio.predict(T), ratio.predict(far)):
            assert np.isfinite(w).all()
            assert (w >= 0).all()
        assert np.isfinite(ratio.divergence_)
        assert ratio.adapted_


def test_direction_is_target_over_source(name):
    X, T = samples(150, 150, d=1, shift=1.0)
    low, high = make(name).fit(X, X_target=T).predict([[-1.0], [1.5]])
    assert low < high


def test_figures_follow_from_the_weights(name):
    X, T = samples()
    ratio = make(name).fit(X, X_target=T)
    w = ratio.weights_
    assert ratio.ess_ == pytest.approx(w.sum() ** 2 / (w @ w))
    assert ratio.max_weight_share_ == pytest.approx(w.max() / w.sum())


def test_equal_samples_give_weights_near_one_and_no_warning(name):
    X, T = samples(300, 300, d=1, shift=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverlapWarning)
        ratio = make(name).fit(X, X_target=T)
    assert ratio.weights_.mean() == pytest.approx(1.0, abs=0.15)
    assert ratio.ess_ > 200


def test_order_of_rows_does_not_matter(name):
    X, T = samples(seed=4)
    rng = np.random.default_rng(0)
    first = make(name).fit(X, X_target=T)
    order = rng.permutation(len(X))
    second = make(name).fit(X[order], X_target=T[rng.permutation(len(T))])
    if first.get_params().get("cv", None) is not None:
        pytest.skip("folds are cut by position")
    np.testing.assert_allclose(second.weights_, first.weights_[order], rtol=1e-6, atol=1e-9)


def test_frequencies_equal_copies_and_zero_equals_absence(name):
    X, T = samples(40, 30)
    s = np.random.default_rng(1).integers(0, 4, 40)
    weighted = make(name).fit(X, X_target=T, sample_weight=s)
    copies = make(name).fit(np.repeat(X, s, axis=0), X_target=T)
    np.testing.assert_allclose(np.repeat(weighted.weights_, s), copies.weights_, rtol=1e-5, atol=1e-7)
    assert weighted.divergence_ == pytest.approx(copies.divergence_, rel=1e-5)
    assert weighted.ess_ == pytest.approx(copies.ess_, rel=1e-5)
    assert weighted.score(X, X_target=T, sample_weight=s) == pytest.approx(
        copies.score(np.repeat(X, s, axis=0), X_target=T), rel=1e-5
    )


def test_the_same_seed_gives_the_same_bits(name):
    X, T = samples()
    state = np.random.get_state()[1].copy()
    first, second = (make(name).fit(X, X_target=T).weights_ for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(np.random.get_state()[1], state)


def test_clone_and_pickle(name):
    X, T = samples()
    ratio = make(name).fit(X, X_target=T)
    assert not hasattr(clone(ratio), "weights_")
    assert np.array_equal(pickle.loads(pickle.dumps(ratio)).predict(T), ratio.predict(T))


def test_target_holder_is_the_target(name):
    X, T = samples()
    held = make(name).fit(X, X_target=Target(T))
    bare = make(name).fit(X, X_target=T)
    assert np.array_equal(held.weights_, bare.weights_)
    assert held.score(X, X_target=Target(T)) == bare.score(X, X_target=T)


def test_score_is_finite_and_needs_a_target(name):
    X, T = samples()
    ratio = make(name).fit(X, X_target=T)
    assert np.isfinite(ratio.score(X, X_target=T))
    with pytest.raises(ValueError, match=r"score needs.*X_target=\.\.\."):
        ratio.score(X)


def test_float32_stays_float32_within_its_accuracy(name):
    X, T = samples()
    X, T = X.astype(np.float32), T.astype(np.float32)
    single = make(name).fit(X, X_target=T)
    double = make(name).fit(X.astype(np.float64), X_target=T.astype(np.float64))
    assert single.weights_.dtype == single.predict(T).dtype == np.float32
    np.testing.assert_allclose(single.weights_, double.weights_, rtol=2e-3, atol=2e-3)


def test_integers_and_layouts_of_memory_change_nothing(name):
    rng = np.random.default_rng(0)
    X, T = rng.integers(-5, 5, (60, 2)), rng.integers(-3, 7, (50, 2))
    expected = make(name).fit(X.astype(float), X_target=T.astype(float)).weights_
    read_only = X.astype(float)
    read_only.flags.writeable = False
    wide = np.zeros((60, 4))
    wide[:, ::2] = X
    for form in (X, read_only, wide[:, ::2], np.asfortranarray(X.astype(float)), X.astype(object)):
        np.testing.assert_allclose(make(name).fit(form, X_target=T).weights_, expected, rtol=1e-9)


def test_memory_maps_and_callers_arrays_are_not_written_to(name, tmp_path):
    X, T = samples()
    for file, rows in (("X.npy", X), ("T.npy", T)):
        np.save(tmp_path / file, rows)
    mapped = [np.load(tmp_path / file, mmap_mode="r") for file in ("X.npy", "T.npy")]
    kept = X.copy(), T.copy()
    s = np.ones(60)
    inside = make(name).fit(X, X_target=T, sample_weight=s).weights_
    from_disk = make(name).fit(mapped[0], X_target=mapped[1]).weights_
    np.testing.assert_allclose(from_disk, inside, rtol=1e-6, atol=1e-9)
    assert np.array_equal(X, kept[0])
    assert np.array_equal(T, kept[1])
    assert np.array_equal(s, np.ones(60))


def test_target_passed_as_y_is_refused(name):
    X, T = samples(50, 50)
    with pytest.raises(ValueError, match=r"y has shape \(50, 2\).*did you mean X_target="):
        make(name).fit(X, T)
    with pytest.raises(ValueError, match=r"y has shape \(50, 1\).*did you mean X_target="):
        make(name).fit(X[:, :1], T[:, :1])


def test_frames_must_have_the_same_columns_in_the_same_order(name):
    X, T = samples()
    frame = pd.DataFrame(X, columns=["a", "b"])
    target = pd.DataFrame(T, columns=["a", "b"])
    ratio = make(name).fit(frame, X_target=target)
    assert list(ratio.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match=r"(?s)order.*X_target of "):
        make(name).fit(frame, X_target=target[["b", "a"]])
    with pytest.raises(ValueError, match=r"(?s)unseen.*c.*X_target of "):
        make(name).fit(frame, X_target=target.rename(columns={"b": "c"}))
    with pytest.raises(ValueError, match=r"X_target has 1 features.*2 features"):
        make(name).fit(X, X_target=T[:, :1])


def test_shapes_are_named(name):
    X, T = samples()
    with pytest.raises(ValueError, match=r"X_target must be two-dimensional.*\(50,\).*reshape\(-1, 1\)"):
        make(name).fit(X[:, :1], X_target=T[:, 0])
    with pytest.raises(ValueError, match=r"(?s)Expected 2D array.*reshape"):
        make(name).fit(X[:, 0], X_target=T)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        make(name).fit(X[:0], X_target=T)
    with pytest.raises(ValueError, match=r"X_target: .*0 sample\(s\)"):
        make(name).fit(X, X_target=T[:0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(60), r"sample_weight\[0\]=-1.*>= 0"),
        (np.zeros(60), r"sample_weight is zero for every row.*at least one"),
        (np.full(60, np.nan), "sample_weight contains NaN"),
        (np.ones(59), r"sample_weight.shape == \(59,\)"),
    ],
)
def test_weights_that_are_no_frequencies(name, weights, message):
    X, T = samples()
    with pytest.raises(ValueError, match=message):
        make(name).fit(X, X_target=T, sample_weight=weights)


def test_no_overlap_never_passes_in_silence(name):
    X, T = samples(80, 80, d=1, shift=8.0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            make(name).fit(X, X_target=T)
        except AllWeightsZeroError as problem:
            assert "bandwidth=" in str(problem)
            return
    texts = [str(w.message) for w in said if issubclass(w.category, OverlapWarning)]
    assert any("beyond the source's support" in text for text in texts)


def test_constant_columns_are_taken(name):
    X, T = samples(40, 40)
    flat, flat_target = (np.column_stack([rows, np.full(40, 7.0)]) for rows in (X, T))
    w = make(name).fit(flat, X_target=flat_target).weights_
    assert np.isfinite(w).all()
    np.testing.assert_allclose(w, make(name).fit(X, X_target=T).weights_, rtol=1e-6, atol=1e-9)


def test_one_distinct_row_gives_equal_weights_or_says_what_is_wrong(name):
    same = np.ones((40, 2))
    try:
        w = make(name).fit(same, X_target=same).weights_
    except ValueError as problem:
        assert "X has 1 distinct row" in str(problem)
        assert "fixed hyperparameters" in str(problem)
        return
    assert np.isfinite(w).all()
    assert np.ptp(w) < 1e-6


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_huge_and_tiny_units(name, scale):
    X, T = samples(50, 50)
    plain = make(name).fit(X, X_target=T).weights_
    scaled = make(name).fit(X * scale, X_target=T * scale).weights_
    np.testing.assert_allclose(scaled, plain, rtol=1e-4, atol=1e-6)


def test_plain_ratios_average_near_one_on_the_source(name):
    for seed in range(3):
        X, T = samples(200, 200, d=1, shift=0.7, seed=seed)
        ratio = make(name).fit(X, X_target=T)
        if "relative_alpha" in ratio.get_params():
            r = (1 - ratio.relative_alpha) * ratio.weights_.mean() + ratio.relative_alpha * ratio.predict(T).mean()
            assert 0.5 < r < 2  # a relative ratio averages one on the mixture of both samples
        else:
            assert 0.5 < ratio.weights_.mean() < 2


def test_sparse_rows_are_taken_or_refused_with_a_way_out(name):
    X, T = samples()
    try:
        w = make(name).fit(csr_matrix(X), X_target=csr_matrix(T)).weights_
    except TypeError as problem:
        assert "dense" in str(problem)
        assert "toarray" in str(problem)
        return
    np.testing.assert_allclose(w, make(name).fit(X, X_target=T).weights_, rtol=1e-5)
