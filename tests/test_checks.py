"""The validation door."""

from __future__ import annotations

import numpy as np
import pytest

from covshift import Target
from covshift._checks import (
    as_generator,
    check_choice,
    check_count,
    check_flag,
    check_grid,
    check_number,
    check_weights,
    refuse_matrix_y,
    refuse_target_as_labels,
    unwrap_target,
)


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), np.int64(3)])
def test_numbers_become_floats(value):
    assert check_number("a", value) == 3.0
    assert type(check_number("a", value)) is float


@pytest.mark.parametrize(
    ("value", "error"),
    [(True, TypeError), (np.True_, TypeError), ("3", TypeError), (None, TypeError), ([3], TypeError), (1j, TypeError),
     (-1, ValueError), (5, ValueError), (np.nan, ValueError), (np.inf, ValueError)],
)  # fmt: skip
def test_what_is_no_number_of_the_range_is_refused(value, error):
    with pytest.raises(error, match=r"a=.*: expected a number in \[0, 4\]"):
        check_number("a", value, 0.0, 4.0)


def test_an_open_end_is_said():
    assert check_number("a", 0.0, 0.0, 1.0) == 0.0
    with pytest.raises(ValueError, match=r"a=0.0: expected a number in \(0, 1\]"):
        check_number("a", 0.0, 0.0, 1.0, open_low=True)


def test_counts_and_flags():
    assert check_count("n", np.int32(2)) == 2
    assert check_count("n", 0, low=0) == 0
    for bad, error in ((0, ValueError), (1.0, TypeError), (True, TypeError), ("1", TypeError)):
        with pytest.raises(error, match="n=.*: expected an integer >= 1"):
            check_count("n", bad)
    assert check_flag("f", np.True_) is True
    with pytest.raises(TypeError, match="f=1: expected True or False"):
        check_flag("f", 1)


def test_choices_name_the_nearest():
    assert check_choice("c", "one", ("one", "two")) == "one"
    with pytest.raises(ValueError, match=r"c='onne': expected one of 'one', 'two'; did you mean 'one'\?"):
        check_choice("c", "onne", ("one", "two"))
    with pytest.raises(ValueError, match=r"c=7: expected one of 'one'$"):
        check_choice("c", 7, ("one",))


def test_grids_are_a_word_a_number_or_numbers():
    assert check_grid("g", "auto", words=("auto",)) == "auto"
    assert check_grid("g", 2) == (2.0,)
    assert check_grid("g", np.array([1.0, 2.0])) == (1.0, 2.0)
    assert check_grid("g", range(1, 3)) == (1.0, 2.0)
    assert check_grid("g", np.inf, allow_inf=True) == (np.inf,)
    with pytest.raises(ValueError, match=r"g\[1\]=0: expected a number in \(0, "):
        check_grid("g", (1, 0))
    with pytest.raises(ValueError, match="g=inf"):
        check_grid("g", np.inf)
    with pytest.raises(ValueError, match="g is an empty sequence"):
        check_grid("g", ())
    with pytest.raises(TypeError, match="g=None: expected a number or a sequence of numbers or 'auto'"):
        check_grid("g", None, words=("auto",))
    with pytest.raises(TypeError, match=r"g\[0\]='a'"):
        check_grid("g", ["a"])


def test_weights_are_frequencies():
    X = np.zeros((3, 1))
    assert check_weights(None, X) is None
    s = check_weights([1, 0, 2], X)
    assert s.dtype == np.float64
    np.testing.assert_array_equal(s, [1, 0, 2])
    for bad, message in (
        ([1, -2, 1], r"sample_weight\[1\]=-2"),
        ([0, 0, 0], "zero for every row"),
        ([1, np.nan, 1], "sample_weight contains NaN"),
        ([1, 1], r"sample_weight.shape == \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            check_weights(bad, X)


def test_generators_are_their_own_and_repeatable():
    assert as_generator(3).random() == as_generator(np.int64(3)).random()
    mine = np.random.default_rng(0)
    assert as_generator(mine) is mine
    state = np.random.RandomState(5)
    assert as_generator(state).random() == as_generator(np.random.RandomState(5)).random()
    assert as_generator(None).random() != as_generator(None).random()


def test_matrices_in_the_place_of_labels_are_refused():
    refuse_matrix_y(None)
    refuse_matrix_y([1, 2])
    with pytest.raises(ValueError, match=r"y has shape \(2, 1\).*did you mean X_target=\?"):
        refuse_matrix_y([[1], [2]])
    refuse_target_as_labels(None)
    refuse_target_as_labels([[1], [2]])  # one column: scikit-learn's own warning tells
    with pytest.raises(ValueError, match=r"y has shape \(1, 2\).*X_target=\.\.\."):
        refuse_target_as_labels([[1, 2]])


def test_targets_unwrap():
    rows = np.zeros((2, 1))
    assert unwrap_target(Target(Target(rows))) is rows
    assert unwrap_target(rows) is rows
    assert unwrap_target(None) is None
    with pytest.raises(AttributeError):
        Target(rows).anything = 1
