"""Inputs of kernel models: which rows the statistics come from, and what becomes of gaps and rare words."""

from __future__ import annotations

import numpy as np
import pytest

from covshift.datasets import encode_kernel_inputs

pd = pytest.importorskip("pandas")


def frame(seed, n=40):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(3, 2, n),
            "word": rng.choice(["x", "y", "z"], n),
            "b": rng.exponential(size=n),
            "flag": rng.random(n) < 0.5,
        }
    )
    X.loc[::7, "b"] = np.nan
    return X


def test_numbers_are_imputed_and_z_scored_on_the_pooled_rows():
    X, T, E = frame(0), frame(1), frame(2)
    encoded = encode_kernel_inputs(X, T, E)
    pooled = np.vstack(encoded[:2])[:, :2]
    np.testing.assert_allclose(pooled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(pooled.std(axis=0), 1)
    b = np.concatenate([X["b"], T["b"]])
    filled = np.where(np.isnan(b), np.nanmedian(b), b)
    np.testing.assert_allclose(encoded[2][0, 1], (np.nanmedian(b) - filled.mean()) / filled.std())


def test_rows_for_evaluation_take_no_part():
    X, T, E = frame(0), frame(1), frame(2)
    wild = E.assign(a=E["a"] * 1000, word="unheard of")
    plain, other = encode_kernel_inputs(X, T, E), encode_kernel_inputs(X, T, wild)
    np.testing.assert_array_equal(plain[0], other[0])
    np.testing.assert_array_equal(plain[1], other[1])
    assert not other[2][:, 2:5].any()


def test_words_become_columns_when_seen_five_times_in_the_pool():
    X = pd.DataFrame({"w": ["p"] * 3 + ["q"] * 6 + [None]}, dtype=object)
    T = pd.DataFrame({"w": ["p"] * 2 + ["r"] * 4}, dtype=object)
    a, b, c = encode_kernel_inputs(X, T, T)
    assert a.tolist() == [[1, 0]] * 3 + [[0, 1]] * 6 + [[0, 0]]
    assert b.tolist() == [[1, 0]] * 2 + [[0, 0]] * 4
    np.testing.assert_array_equal(b, c)


def test_categories_booleans_and_strings_are_words():
    X = frame(0)
    plain = encode_kernel_inputs(X, X, X)
    typed = encode_kernel_inputs(*[X.astype({"word": "category", "flag": "category"})] * 3)
    np.testing.assert_array_equal(plain[0], typed[0])
    assert plain[0].shape == (40, 2 + 3 + 2)
    np.testing.assert_array_equal(plain[0][:, 5] + plain[0][:, 6], 1)


def test_numbers_that_say_nothing_are_left_out():
    X = frame(0).assign(constant=1.0, absent=np.nan)
    assert encode_kernel_inputs(X, X, X)[0].shape == (40, 7)
    # constant on the pooled rows, however the rows for evaluation vary
    assert encode_kernel_inputs(X, X, X.assign(constant=np.arange(40)))[2].shape == (40, 7)


def test_only_words_or_only_numbers():
    X = frame(0)
    assert encode_kernel_inputs(*[X[["word"]]] * 3)[0].shape == (40, 3)
    assert encode_kernel_inputs(*[X[["a", "b"]]] * 3)[0].shape == (40, 2)


def test_other_columns_are_refused_by_name():
    X = frame(0)
    with pytest.raises(ValueError, match=r"X_target needs the columns of X .*\['a'\]"):
        encode_kernel_inputs(X, X.drop(columns="a"), X)
