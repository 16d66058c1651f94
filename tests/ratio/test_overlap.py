"""Overlap figures and when they are worth a warning."""

import warnings

import numpy as np
import pytest

from covshift.exceptions import OverlapWarning
from covshift.ratio import ULSIF
from covshift.ratio._overlap import effective_sample_size, max_weight_share, share_beyond_support, warn_overlap


def said(w, X, X_target, s=None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_overlap(ULSIF(), w, X, X_target, s=s)
    return [str(w.message) for w in caught if w.category is OverlapWarning]


def test_effective_sample_size_counts_equal_weights_and_copies():
    assert effective_sample_size(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_sample_size(np.array([1.0, 0, 0])) == 1
    w, s = np.array([1.0, 2.0, 5.0]), np.array([3, 0, 2])
    assert effective_sample_size(w, s) == pytest.approx(effective_sample_size(np.repeat(w, s)))
    assert effective_sample_size(np.zeros(3)) == 0
    assert effective_sample_size(np.full(5, 1e-300)) == pytest.approx(5)


def test_largest_share_counts_one_copy():
    w, s = np.array([1.0, 2.0, 5.0]), np.array([3, 1, 2])
    assert max_weight_share(w, s) == pytest.approx(max_weight_share(np.repeat(w, s)))
    assert max_weight_share(np.zeros(2)) == 0


def test_few_effective_rows_are_named():
    X = np.random.default_rng(0).normal(size=(100, 1))
    w = np.zeros(100)
    w[:4] = 1.0
    (text,) = said(w, X, X)
    assert "ULSIF" in text
    assert "100 source rows are worth 4.0 rows" in text
    assert "RuLSIF" in text
    assert said(np.ones(100), X, X) == []
    w[:60] = 1.0
    assert said(w, X, X) == []


def test_five_percent_of_many_rows_is_the_floor():
    X = np.random.default_rng(0).normal(size=(1000, 1))
    w = np.zeros(1000)
    w[:40] = 1.0
    assert len(said(w, X, X)) == 1
    w[:60] = 1.0
    assert said(w, X, X) == []


def test_a_dozen_rows_need_no_ten():
    X = np.random.default_rng(0).normal(size=(12, 1))
    assert said(np.linspace(0.1, 1, 12), X, X) == []


def test_frequency_zero_is_absence_for_the_floor():
    X = np.random.default_rng(0).normal(size=(300, 1))
    s = np.zeros(300)
    s[:100] = 1
    assert said(np.r_[np.ones(12), np.zeros(288)], X, X, s=s) == []
    assert len(said(np.r_[np.ones(12), np.zeros(288)], X, X)) == 1


@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("n", [20, 150])
def test_equal_samples_are_rarely_warned_about(d, n):
    rng = np.random.default_rng(0)
    warned = [len(said(np.ones(n), rng.normal(size=(n, d)), rng.normal(size=(n, d)))) for _ in range(60)]
    assert sum(warned) <= 3


@pytest.mark.parametrize("d", [1, 2, 10])
def test_a_target_out_of_reach_is_named(d):
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(150, d)), rng.normal(size=(150, d)) + 5
    assert share_beyond_support(X, T) > 0.9
    (text,) = said(np.ones(150), X, T)
    assert "of the target rows lie beyond the source's support" in text
    assert "collect labels" in text


def test_repeated_rows_and_units_do_not_decide():
    rng = np.random.default_rng(0)
    X, T = rng.integers(0, 5, (400, 2)).astype(float), rng.integers(0, 5, (400, 2)).astype(float)
    assert share_beyond_support(X, T) == 0
    for scale in (1e-150, 1e150):
        assert share_beyond_support(X * scale, (T + 2) * scale) == share_beyond_support(X, T + 2)
    assert share_beyond_support(np.ones((20, 1)), np.ones((20, 1))) == 0
    assert share_beyond_support(np.ones((20, 1)), np.zeros((20, 1))) == 1


def test_many_rows_are_thinned():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(100_000, 3)), rng.normal(size=(70_000, 3))
    assert share_beyond_support(X, T) == share_beyond_support(X[::196], T[::137])


def test_the_warning_points_at_the_call_of_fit():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(60, 1)), rng.normal(size=(60, 1)) + 3
    with pytest.warns(OverlapWarning) as caught:
        ULSIF(random_state=0).fit(X, X_target=T)
    assert caught[0].filename == __file__
