"""Paired folds: source rows and target rows are cut side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold


@dataclass(frozen=True)
class Fold:
    """Index arrays of one fold: fit on `train` and `target_train`, judge on `test` and `target_test`."""

    train: np.ndarray
    test: np.ndarray
    target_train: np.ndarray
    target_test: np.ndarray


def paired_folds(
    cv: Any,
    X: Any,
    y: np.ndarray | None,
    n_target: int,
    *,
    stratify: bool = False,
    groups: Any = None,
    random_state: int | np.random.RandomState | None = None,
) -> list[Fold]:
    """Folds of the source by `cv` and as many seeded folds of the target.

    Parameters
    ----------
    cv : int (shuffled, seeded; stratified by `y` if asked for and possible), a splitter, or an iterable of
        (train, test) index pairs of source rows
    n_target : number of target rows; 0 where there is no target
    random_state : decides the shuffles, of the source for an integer `cv` and of the target always

    A sample with fewer rows than folds lowers the number of an integer `cv`; a side that cannot be cut at all is an
    error that names it.
    """
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    seed = _as_seed(random_state)
    pairs = _source_pairs(cv, X, y, n, n_target, stratify, groups, seed)
    target_parts = _target_parts(n_target, len(pairs), seed)
    everything = np.arange(n_target)
    return [
        Fold(np.asarray(train), np.asarray(test), np.setdiff1d(everything, part, assume_unique=True), part)
        for (train, test), part in zip(pairs, target_parts, strict=True)
    ]


def content_folds(
    cv: Any, codes: np.ndarray, labels: np.ndarray, n_target: int, *, stratify: bool = False, random_state: Any = None
) -> list[Fold]:
    """`paired_folds` for an integer `cv` that look at what rows are: equal labelled rows share a fold.

    A row of frequency k is then k copies in the folds too, and the order of rows decides nothing. Classes
    (`stratify`) are the exception where the same inputs occur with several labels, as values of discrete inputs do:
    such rows are on their own, because a model that sees none of the (x, 1) and all of the (x, 0) learns the
    opposite of the truth.

    Parameters
    ----------
    codes : (n, any) numbers that are equal for equal rows
    labels : (n,) numbers
    """
    unit = _content_units(codes, labels, stratify)
    first = np.unique(unit, return_index=True)[1]
    if len(first) < 2:
        raise ValueError(
            f"X: all {len(unit)} source rows and their labels are equal, and cv={cv} needs at least 2 distinct ones "
            "to tell hyperparameters apart: give rows that differ, or index pairs as cv"
        )
    pairs = paired_folds(cv, codes[first], labels[first], n_target, stratify=stratify, random_state=random_state)

    def rows(units: np.ndarray) -> np.ndarray:
        return np.flatnonzero(np.isin(unit, units))

    return [Fold(rows(p.train), rows(p.test), p.target_train, p.target_test) for p in pairs]


def _content_units(codes: np.ndarray, labels: np.ndarray, classes: bool) -> np.ndarray:
    """Number of the unit that each row belongs to, in the order of contents; (n,)."""
    pair = _cells(np.column_stack([codes, labels]))
    if not classes:
        return pair
    first, cell = np.unique(pair, return_index=True)[1], _cells(codes)
    ambiguous = (np.bincount(cell[first]) > 1)[cell]
    order = np.argsort(pair, kind="stable")
    opens = np.r_[True, np.diff(pair[order]) > 0] | ambiguous[order]
    unit = np.empty_like(pair)
    unit[order] = np.cumsum(opens) - 1
    return unit


def _cells(codes: np.ndarray) -> np.ndarray:
    """Equal rows have equal numbers, in the order of contents."""
    return np.unique(codes, axis=0, return_inverse=True)[1].ravel()


def _as_seed(random_state: int | np.random.RandomState | None) -> int:
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    if random_state is None:
        return int(np.random.default_rng().integers(2**31 - 1))
    return int(random_state.randint(2**31 - 1))


def _source_pairs(
    cv: Any, X: Any, y: np.ndarray | None, n: int, n_target: int, stratify: bool, groups: Any, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    if isinstance(cv, int | np.integer):
        if cv < 2:
            raise ValueError(f"cv={cv}: cross-validation needs at least 2 folds; give cv >= 2 or index pairs")
        if n < 2:
            raise ValueError(f"X has {n} row: cross-validation needs at least 2 source rows")
        folds = min(int(cv), n, n_target) if n_target > 1 else min(int(cv), n)
        if stratify and y is not None and np.unique(y, return_counts=True)[1].min() >= folds:
            return list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(n), y))
        return list(KFold(folds, shuffle=True, random_state=seed).split(np.zeros(n)))
    if hasattr(cv, "split") and not isinstance(cv, str):
        return list(cv.split(X, y, groups))
    if isinstance(cv, Iterable) and not isinstance(cv, str):
        pairs = [(np.asarray(train), np.asarray(test)) for train, test in cv]
        for k, side in ((k, side) for k, pair in enumerate(pairs) for side in pair):
            if len(side) and (side.max() >= n or side.min() < -n):
                raise ValueError(f"cv: pair {k} names row {side.max()}, but X has {n} rows (0 to {n - 1})")
        if pairs:
            return pairs
    raise ValueError(f"cv={cv!r}: expected an integer, a splitter with .split, or an iterable of index pairs")


def _target_parts(n_target: int, k: int, seed: int) -> list[np.ndarray]:
    if n_target == 0:
        return [np.arange(0)] * k
    if n_target < max(k, 2):
        raise ValueError(
            f"X_target has {n_target} row(s), which cannot be cut into the {k} folds of the source: give more target "
            f"rows{', or a smaller cv' if n_target > 1 else ''} (kernel estimators with fixed hyperparameters need "
            "no cross-validation)"
        )
    shuffled = np.random.default_rng([seed, 1]).permutation(n_target)
    # One pair of source indices alone still needs target rows on both sides.
    return [np.sort(part) for part in np.array_split(shuffled, max(k, 2))[:k]]
