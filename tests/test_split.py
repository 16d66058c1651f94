"""Paired folds: both sides are partitions, seeded, and the target's are as many as the source's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold, LeaveOneGroupOut, StratifiedKFold, TimeSeriesSplit

from covshift._split import content_folds, paired_folds


def assert_partition(parts, n):
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))


@pytest.mark.parametrize(("n", "n_target", "cv", "k"), [(20, 30, 5, 5), (3, 30, 5, 3), (20, 4, 5, 4), (2, 2, 2, 2)])
def test_integer_folds_are_partitions_of_both_sides(n, n_target, cv, k):
    folds = paired_folds(cv, np.zeros((n, 1)), None, n_target, random_state=0)
    assert len(folds) == k
    assert_partition([f.test for f in folds], n)
    assert_partition([f.target_test for f in folds], n_target)
    for fold in folds:
        assert_partition([fold.train, fold.test], n)
        assert_partition([fold.target_train, fold.target_test], n_target)
    sizes = [len(f.target_test) for f in folds]
    assert max(sizes) - min(sizes) <= 1


def test_seeds_decide_both_sides():
    def flat(seed):
        folds = paired_folds(3, np.zeros((30, 1)), None, 30, random_state=seed)
        return [tuple(a) for f in folds for a in (f.test, f.target_test)]

    assert flat(0) == flat(0)
    assert flat(0) != flat(1)
    assert flat(np.random.RandomState(0)) == flat(np.random.RandomState(0))
    before = np.random.get_state()[1].copy()
    paired_folds(3, np.zeros((30, 1)), None, 30)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_source_and_target_of_equal_length_are_cut_differently():
    folds = paired_folds(3, np.zeros((30, 1)), None, 30, random_state=0)
    assert any(not np.array_equal(f.test, f.target_test) for f in folds)


def test_stratified_folds_hold_every_class_where_there_are_enough_rows():
    y = np.repeat([0, 1], [40, 5])
    folds = paired_folds(5, np.zeros((45, 1)), y, 10, stratify=True, random_state=0)
    assert all((y[f.test] == 1).sum() == 1 for f in folds)
    rare = np.repeat([0, 1], [43, 2])
    assert len(paired_folds(5, np.zeros((45, 1)), rare, 10, stratify=True, random_state=0)) == 5


@pytest.mark.parametrize("splitter", [KFold(4), TimeSeriesSplit(4), StratifiedKFold(4)])
def test_splitters_decide_the_source_side(splitter):
    y = np.tile([0, 1], 10)
    X = np.zeros((20, 1))
    folds = paired_folds(splitter, X, y, 9, random_state=0)
    for fold, (train, test) in zip(folds, splitter.split(X, y), strict=True):
        np.testing.assert_array_equal(fold.train, train)
        np.testing.assert_array_equal(fold.test, test)
    assert_partition([f.target_test for f in folds], 9)


def test_groups_reach_the_splitter():
    groups = np.repeat([0, 1, 2], 4)
    folds = paired_folds(LeaveOneGroupOut(), np.zeros((12, 1)), np.zeros(12), 6, groups=groups, random_state=0)
    assert [set(groups[f.test]) for f in folds] == [{0}, {1}, {2}]


def test_one_pair_of_indices_leaves_target_rows_on_both_sides():
    (fold,) = paired_folds([([0, 1], [2])], np.zeros((3, 1)), None, 10, random_state=0)
    assert len(fold.target_train) == len(fold.target_test) == 5


def test_without_a_target_its_sides_are_empty():
    for fold in paired_folds(3, np.zeros((9, 1)), None, 0, random_state=0):
        assert len(fold.target_train) == len(fold.target_test) == 0


def test_lists_have_a_length_too():
    assert len(paired_folds(2, [[0.0], [1.0], [2.0]], None, 4, random_state=0)) == 2


@pytest.mark.parametrize(
    ("cv", "n", "n_target", "message"),
    [
        (1, 9, 9, "cv=1: cross-validation needs at least 2 folds"),
        (5, 1, 9, "X has 1 row: cross-validation needs at least 2"),
        (5, 9, 1, r"X_target has 1 row\(s\), which cannot be cut into the 5 folds"),
        (KFold(4), 9, 3, r"X_target has 3 row\(s\), which cannot be cut into the 4 folds"),
        ([], 9, 9, r"cv=\[\]: expected an integer, a splitter"),
        (None, 9, 9, "cv=None: expected an integer, a splitter"),
        ([([0], [9])], 9, 9, r"cv: pair 0 names row 9, but X has 9 rows \(0 to 8\)"),
    ],
)
def test_what_cannot_be_cut_is_named(cv, n, n_target, message):
    with pytest.raises(ValueError, match=message):
        paired_folds(cv, np.zeros((n, 1)), None, n_target, random_state=0)


def test_equal_labelled_rows_share_a_fold_whatever_their_order():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    copies = np.repeat(np.arange(30), rng.integers(1, 4, 30))
    shuffled = rng.permutation(copies)
    once = content_folds(5, X, y, 20, random_state=0)
    for rows in (copies, shuffled):
        for fold, whole in zip(content_folds(5, X[rows], y[rows], 20, random_state=0), once, strict=True):
            assert set(rows[fold.test]) == set(whole.test)
            assert not set(rows[fold.test]) & set(rows[fold.train])


def test_classes_of_one_discrete_input_are_on_both_sides_of_every_fold():
    X, y = np.repeat([[0.0], [1.0]], 50, axis=0), np.tile([0, 1], 50)
    for fold in content_folds(5, X, y, 20, stratify=True, random_state=0):
        for side in (fold.train, fold.test):
            assert set(zip(X[side, 0], y[side], strict=True)) == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_rows_that_are_all_equal_cannot_be_cut():
    with pytest.raises(ValueError, match=r"X: all 9 source rows and their labels are equal, and cv=5"):
        content_folds(5, np.ones((9, 2)), np.ones(9), 9, random_state=0)
