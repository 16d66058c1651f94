"""Sums over row blocks are sums over rows."""

from __future__ import annotations

import numpy as np
import pytest

from covshift.blocks import map_blocks, sum_over_blocks


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("floats_per_row", [1, 10**9])
def test_blocks_add_up_to_the_whole(n, floats_per_row):
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(n, 3)), rng.random(n)
    seen = []

    def sums(X, s, nothing):
        assert nothing is None
        assert len(X) == len(s)
        seen.append(len(X))
        return (X * s[:, None]).T @ X, s @ X, float(s.sum())

    H, h, total = sum_over_blocks(sums, X, s, None, floats_per_row=floats_per_row)
    np.testing.assert_allclose(H, X.T @ np.diag(s) @ X, atol=1e-12)
    np.testing.assert_allclose(h, s @ X, atol=1e-12)
    assert total == pytest.approx(s.sum())
    assert sum(seen) == n
    assert max(seen) <= (64 if floats_per_row > 1 else 10**6)


def test_blocks_are_views_and_the_first_part_is_not_overwritten_in_the_callers_hands():
    X = np.ones((200, 2))
    parts = []

    def sums(block):
        assert np.shares_memory(block, X)
        parts.append(block.sum(axis=0))
        return parts[-1].copy()

    np.testing.assert_array_equal(sum_over_blocks(sums, X, floats_per_row=10**9), [200.0, 200.0])
    assert len(parts) == 4


def test_a_function_that_returns_its_own_row_array_is_not_written_into():
    """A block's result may be a view of the data (a single row summed over one axis is not, a diagonal is)."""
    X = np.arange(6.0).reshape(3, 2)
    kept = X.copy()
    sum_over_blocks(lambda block: block.sum(axis=0), X)
    np.testing.assert_array_equal(X, kept)


def test_map_blocks_is_the_function_of_all_rows():
    X = np.random.default_rng(0).normal(size=(500, 2))
    sizes = []

    def double(block):
        sizes.append(len(block))
        return 2 * block

    np.testing.assert_array_equal(map_blocks(double, X, 10**9), 2 * X)
    assert len(sizes) > 1
    np.testing.assert_array_equal(map_blocks(double, X), 2 * X)
    assert sizes[-1] == 500
    assert map_blocks(double, X[:0]).shape == (0, 2)


def test_memory_of_intermediates_is_bounded_by_the_block():
    largest = 0

    def wide(block):
        nonlocal largest
        largest = max(largest, len(block) * 1000)
        return np.zeros(1)

    sum_over_blocks(wide, np.zeros((100_000, 1)), floats_per_row=1000)
    assert largest <= 2**18
