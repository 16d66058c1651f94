"""Scaling, centres and the median where there are too many rows to look at all."""

import numpy as np
import pytest

from covshift.ratio import ULSIF
from covshift.ratio._features import thinned_rows


def test_few_rows_are_all_kept():
    assert thinned_rows(np.zeros((10, 2)), None, 10) == slice(None)
    assert thinned_rows(np.zeros((5, 2)), np.full(5, 2.0), 10) == slice(None)


@pytest.mark.parametrize("kind", ["continuous", "integers", "one column"])
def test_about_as_many_rows_as_asked_for_are_kept(kind):
    rng = np.random.default_rng(0)
    rows = {
        "continuous": rng.normal(size=(40_000, 3)),
        "integers": rng.integers(0, 1000, (40_000, 2)).astype(float),
        "one column": rng.integers(0, 10**6, (40_000, 1)).astype(float),
    }[kind]
    kept = thinned_rows(rows, None, 4000)
    assert len(kept) == pytest.approx(4000, rel=0.1)
    assert rows[kept].mean() == pytest.approx(rows.mean(), abs=0.06 * rows.std())


def test_order_copies_and_precision_do_not_decide():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 2)).astype(np.float32)
    s = rng.integers(1, 4, 20_000)
    chosen = {tuple(row) for row in rows[thinned_rows(rows, s.astype(float), 2000)]}
    copies = np.repeat(rows, s, axis=0)[rng.permutation(s.sum())].astype(np.float64)
    assert {tuple(row) for row in copies[thinned_rows(copies, None, 2000)]} == chosen
    rows[:, 1] = 0.0
    kept = thinned_rows(rows, None, 2000)
    assert np.array_equal(kept, thinned_rows(rows * np.float32([1, -1]), None, 2000))  # -0.0 is 0.0


def test_one_repeated_row_leaves_a_row():
    rows = np.ones((1000, 2))
    assert 1 <= len(rows[thinned_rows(rows, None, 10)]) <= 20


def test_fits_on_many_rows_count_frequencies_and_forget_order():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(9000, 2)), rng.normal(size=(12_000, 2)) + 0.5
    s = rng.integers(0, 3, 9000)
    weighted = ULSIF("median", 0.1, random_state=0).fit(X, X_target=T, sample_weight=s)
    copies = ULSIF("median", 0.1, random_state=0).fit(
        np.repeat(X, s, axis=0)[::-1], X_target=T[rng.permutation(len(T))]
    )
    assert weighted.bandwidth_ == pytest.approx(copies.bandwidth_, rel=1e-12)
    np.testing.assert_allclose(weighted.predict(X), copies.predict(X), rtol=1e-8)
