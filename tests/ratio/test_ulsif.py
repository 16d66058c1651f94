"""uLSIF and RuLSIF: closed form, search, parameters and what they refuse."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

from covshift.basis import GaussianBasis
from covshift.exceptions import AllWeightsZeroError
from covshift.ratio import ULSIF, RuLSIF
from covshift.ratio._features import pooled_scaling


def samples(n_source=60, n_target=50, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_source, d)), rng.normal(size=(n_target, d)) + 0.5


def normalised_error(w, r):
    w, r = w / w.mean(), r / r.mean()
    return np.sum((w - r) ** 2) / np.sum((1 - r) ** 2)


def gaussians(seed):
    """The toy's inputs and their ratio at the source rows."""
    rng = np.random.default_rng(seed)
    X, T = rng.normal(1, 0.5, (150, 1)), rng.normal(2, 0.25, (150, 1))
    return X, T, 2 * np.exp(-8 * (X - 2) ** 2 + 2 * (X - 1) ** 2).ravel()


@pytest.mark.parametrize("a", [0.0, 0.5, 1.0])
def test_closed_form(a):
    X, T = samples()
    s = np.random.default_rng(0).integers(1, 4, 60)
    ratio = RuLSIF(a, 0.8, 0.1, standardize=False, random_state=0).fit(X, X_target=T, sample_weight=s)
    basis = GaussianBasis(ratio.centers_)
    P, Q = basis.transform(X, 0.8), basis.transform(T, 0.8)
    H = (1 - a) * (P.T * s) @ P / s.sum() + a * Q.T @ Q / 50
    beta = np.maximum(np.linalg.solve(H + 0.1 * np.eye(len(H)), Q.mean(axis=0)), 0)
    np.testing.assert_allclose(ratio.coef_, beta, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ratio.weights_, P @ beta, rtol=1e-8)
    np.testing.assert_allclose(ratio.predict(T), Q @ beta, rtol=1e-8)
    g_s, g_t = P @ beta, Q @ beta
    divergence = g_t.mean() - (1 - a) / 2 * np.average(g_s**2, weights=s) - a / 2 * np.mean(g_t**2) - 0.5
    assert ratio.divergence_ == pytest.approx(divergence)
    assert ratio.score(X, X_target=T, sample_weight=s) == pytest.approx(divergence)


def test_relative_alpha_zero_is_ulsif():
    X, T = samples()
    for parameters in ({}, {"cv": 5}, {"loo": "pairs"}):
        plain = ULSIF(random_state=0, **parameters).fit(X, X_target=T)
        relative = RuLSIF(0.0, random_state=0, **parameters).fit(X, X_target=T)
        assert np.array_equal(plain.weights_, relative.weights_)
        assert np.array_equal(plain.cv_results_["mean_test_score"], relative.cv_results_["mean_test_score"])


def test_standardising_by_hand_is_the_same():
    X, T = samples()
    X, T = X * [1, 100] + 3, T * [1, 100] + 3
    pooled = np.vstack([X, T])
    Z, Z_target = ((rows - pooled.mean(axis=0)) / pooled.std(axis=0) for rows in (X, T))
    ours = ULSIF(random_state=0).fit(X, X_target=T)
    by_hand = ULSIF(random_state=0, standardize=False).fit(Z, X_target=Z_target)
    assert ours.bandwidth_ == pytest.approx(by_hand.bandwidth_)
    np.testing.assert_allclose(ours.weights_, by_hand.weights_, rtol=1e-8)
    raw = {tuple(row) for row in T}
    assert all(tuple(row) in raw for row in ours.centers_)


def test_pooled_scaling_counts_frequencies_and_leaves_constants():
    X, T = samples()
    X[:, 1] = T[:, 1] = 0.1
    s = np.random.default_rng(0).integers(1, 4, 60)
    middle, scale = pooled_scaling(X, T, s.astype(float))
    pooled = np.vstack([np.repeat(X, s, axis=0), T])
    assert middle == pytest.approx(pooled.mean(axis=0))
    assert scale[0] == pytest.approx(pooled[:, 0].std())
    assert scale[1] == pytest.approx(0.1)  # some unit of its own, no division by zero


def test_scalars_are_used_and_sequences_searched():
    X, T = samples()
    fixed = ULSIF(0.7, 0.2).fit(X, X_target=T)
    assert (fixed.bandwidth_, fixed.reg_) == (0.7, 0.2)
    assert np.isnan(fixed.cv_results_["mean_test_score"]).all()
    searched = ULSIF([0.5, 1.0, 2.0], (0.01, 1.0), random_state=0).fit(X, X_target=T)
    table = searched.cv_results_
    best = np.argmax(table["mean_test_score"])
    assert len(table["param_reg"]) == 6
    assert (searched.bandwidth_, searched.reg_) == (table["param_bandwidth"][best], table["param_reg"][best])


def test_median_bandwidth_is_one_and_auto_are_its_multiples():
    X, T = samples()
    median = ULSIF("median", 0.1, random_state=0).fit(X, X_target=T).bandwidth_
    auto = ULSIF("auto", 0.1, random_state=0).fit(X, X_target=T).cv_results_["param_bandwidth"]
    np.testing.assert_allclose(auto / median, np.geomspace(0.25, 4, 9))


@pytest.mark.parametrize("where", ["target", "source", "both"])
def test_centers_come_from_where_they_should(where):
    X, T = samples()
    ratio = ULSIF(1.0, 0.1, n_centers=10, centers=where, random_state=0).fit(X, X_target=T)
    source, target = ({tuple(row) for row in rows} for rows in (X, T))
    from_source = sum(tuple(row) in source for row in ratio.centers_)
    assert from_source == {"target": 0, "source": 10, "both": 5}[where]
    assert len(ratio.centers_) == 10
    assert sum(tuple(row) in target for row in ratio.centers_) == 10 - from_source


def test_fewer_target_rows_than_centres_take_them_all():
    X, T = samples(60, 7)
    assert len(ULSIF(random_state=0).fit(X, X_target=T).centers_) == 7


def test_linear_basis_is_clipped_at_rows():
    X, T = samples()
    ratio = ULSIF(basis="linear").fit(X, X_target=T)
    np.testing.assert_allclose(
        ratio.weights_, np.maximum((X - ratio._basis.middle) / ratio._basis.scale @ ratio.coef_, 0), rtol=1e-12
    )
    assert (ratio.weights_ == 0).any()
    assert len(np.unique(ratio.cv_results_["param_bandwidth"])) == 1


def test_cv_takes_a_number_a_splitter_or_pairs():
    X, T = samples()
    pairs = list(KFold(4).split(X))
    by_pairs = ULSIF(cv=pairs, random_state=0).fit(X, X_target=T)
    by_splitter = ULSIF(cv=KFold(4), random_state=0).fit(X, X_target=T)
    assert np.array_equal(by_pairs.weights_, by_splitter.weights_)
    assert ULSIF(cv=4, random_state=0).fit(X, X_target=T).weights_.shape == (60,)


def test_folds_count_frequencies_as_copies():
    X, T = samples(30, 20)
    s = np.random.default_rng(0).integers(0, 4, 30)
    weighted = ULSIF(cv=5, random_state=0).fit(X, X_target=T, sample_weight=s)
    copies = ULSIF(cv=5, random_state=0).fit(np.repeat(X, s, axis=0), X_target=T)
    np.testing.assert_allclose(
        weighted.cv_results_["mean_test_score"], copies.cv_results_["mean_test_score"], rtol=1e-9
    )
    np.testing.assert_allclose(np.repeat(weighted.weights_, s), copies.weights_, rtol=1e-9)


def test_index_pairs_count_the_callers_rows():
    X, T = samples(30, 20)
    s = np.ones(30)
    s[::7] = 0
    kept = np.flatnonzero(s)
    place = np.cumsum(s).astype(int) - 1
    pairs = list(KFold(3).split(X))
    inner = [(place[train[s[train] > 0]], place[test[s[test] > 0]]) for train, test in pairs]
    weighted = ULSIF(cv=pairs, random_state=0).fit(X, X_target=T, sample_weight=s)
    absent = ULSIF(cv=inner, random_state=0).fit(X[kept], X_target=T)
    np.testing.assert_allclose(weighted.weights_[kept], absent.weights_, rtol=1e-9)
    np.testing.assert_allclose(weighted.weights_, absent.predict(X), rtol=1e-9)


def test_threads_change_nothing():
    X, T = samples()
    one, two = (ULSIF(random_state=0, n_jobs=jobs).fit(X, X_target=T).weights_ for jobs in (None, 2))
    assert np.array_equal(one, two)


@pytest.mark.filterwarnings("ignore::covshift.exceptions.OverlapWarning")
def test_accuracy_on_two_gaussians():
    """Medians of 100 seeds are in results/ratio_accuracy.csv; ten seeds here, with room for their spread."""
    searched, median, relative = [], [], []
    for seed in range(10):
        X, T, r = gaussians(seed)
        searched.append(normalised_error(ULSIF(random_state=seed).fit(X, X_target=T).weights_, r))
        median.append(normalised_error(ULSIF("median", random_state=seed).fit(X, X_target=T).weights_, r))
        relative.append(normalised_error(RuLSIF(random_state=seed).fit(X, X_target=T).weights_, r / (0.5 + 0.5 * r)))
    assert np.median(searched) < 0.40
    assert np.median(relative) < 0.06
    assert np.median(median) > np.median(searched)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"bandwidth": 0}, ValueError, r"bandwidth=0: expected a number in \(0"),
        ({"bandwidth": [1.0, -2.0]}, ValueError, r"bandwidth\[1\]=-2.0: expected a number"),
        ({"bandwidth": []}, ValueError, "bandwidth is an empty sequence"),
        ({"bandwidth": "silverman"}, ValueError, "bandwidth='silverman': expected one of 'median', 'auto'"),
        ({"bandwidth": np.inf}, ValueError, "bandwidth=inf"),
        ({"bandwidth": None}, TypeError, "bandwidth=None: expected a number or a sequence"),
        ({"reg": 0.0}, ValueError, r"reg=0.0: expected a number in \(0"),
        ({"reg": "Auto"}, ValueError, "reg='Auto': expected one of 'auto'; did you mean 'auto'"),
        ({"n_centers": 0}, ValueError, "n_centers=0: expected an integer >= 1"),
        ({"n_centers": 2.5}, TypeError, "n_centers=2.5: expected an integer"),
        ({"centers": "targets"}, ValueError, "centers='targets'.*did you mean 'target'"),
        ({"basis": "gauss"}, ValueError, "basis='gauss'.*did you mean 'gaussian'"),
        ({"loo": "pair"}, ValueError, "loo='pair'.*did you mean 'pairs'"),
        ({"cv": 1}, ValueError, "cv=1: cross-validation needs at least 2 folds"),
        ({"cv": "five"}, ValueError, "cv='five'"),
        ({"relative_alpha": 1.5}, ValueError, r"relative_alpha=1.5: expected a number in \[0, 1\]"),
    ],
)
def test_parameters_that_make_no_sense(parameters, error, message):
    X, T = samples()
    with pytest.raises(error, match=message):
        RuLSIF(**parameters).fit(X, X_target=T)


@pytest.mark.parametrize(
    ("X", "T", "message"),
    [
        (np.array([[0.0], [np.nan]]), np.ones((3, 1)), "Input X contains NaN"),
        (np.ones((3, 1)), np.array([[0.0], [np.inf]]), "X_target contains infinity"),
        (np.array([["a"], ["b"]]), np.ones((3, 1)), "could not convert string to float"),
        (np.ones((1, 1)), np.ones((5, 1)), r"X has 1 row\(s\).*one bandwidth and one reg"),
        (np.arange(5.0)[:, None], np.ones((1, 1)), r"X_target has 1 row\(s\).*one bandwidth and one reg"),
    ],
)
def test_rows_that_cannot_be_used(X, T, message):
    with pytest.raises(ValueError, match=message):
        ULSIF().fit(X, X_target=T)


def test_one_row_is_enough_where_nothing_is_searched():
    ratio = ULSIF(1.0, 0.1).fit([[0.0]], X_target=[[0.0]])
    assert ratio.weights_ == pytest.approx([1 / 1.1])


def test_missing_values_in_a_frame_are_named():
    with pytest.raises(ValueError, match="Input X contains NaN"):
        ULSIF().fit(pd.DataFrame({"a": [1.0, None, 2.0]}), X_target=pd.DataFrame({"a": [1.0, 2.0]}))


def test_all_weights_zero_names_bandwidth_and_reg():
    X, T = samples(d=1)
    with pytest.raises(AllWeightsZeroError, match="bandwidth=0.01 and reg=0.1.*all 60.*larger bandwidth"):
        ULSIF(0.01, 0.1, standardize=False).fit(X, X_target=T + 1e3)


def test_pairs_refuse_frequencies_but_not_absence():
    X, T = samples()
    s = np.ones(60)
    s[:5] = 0
    with_gaps = ULSIF(loo="pairs", random_state=0).fit(X, X_target=T, sample_weight=s)
    without = ULSIF(loo="pairs", random_state=0).fit(X[5:], X_target=T)
    np.testing.assert_allclose(with_gaps.weights_[5:], without.weights_, rtol=1e-9)
    with pytest.raises(ValueError, match=r"loo='pairs' with sample_weight.*loo='single'"):
        ULSIF(loo="pairs").fit(X, X_target=T, sample_weight=2 * s)


def test_very_many_target_rows_for_few_source_rows():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(50, 1)), rng.normal(0.5, 0.5, size=(300_000, 1))
    ratio = ULSIF(1.0, 0.1, n_centers=20, random_state=0).fit(X, X_target=T)
    assert ratio.weights_.shape == (50,)
    assert np.isfinite(ratio.divergence_)
