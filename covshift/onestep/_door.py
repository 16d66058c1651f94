"""From the user's rows to a `Sample`: units, frequencies, centres, folds and grids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covshift._split import Fold, content_folds, paired_folds
from covshift.basis import BASES, Basis, draw_centers, median_bandwidth
from covshift.blocks import sum_over_blocks
from covshift.onestep._sample import Sample, check_folds

REGS_G = tuple(float(v) for v in np.logspace(-2, 2, 5))
# What bandwidth_f="auto" tries: wide Gaussians with little ridge are close to low polynomials.
WIDTHS_F = (1.0, 2.0, 4.0)


def default_regs_f(n: float, kind: str) -> tuple[float, ...]:
    """reg_f up to 100 rows, and as 100/n above: the ridge reg_f n I keeps its absolute range.

    regression: logspace(-6, 1, 11);  classification: logspace(-3, 1, 7), since only the sign of a score counts and
    scores of little ridge flip it. With a range fixed in reg_f the smallest value binds from a thousand rows on.
    """
    regs = np.logspace(-6, 1, 11) if kind == "regression" else np.logspace(-3, 1, 7)
    return tuple(float(v) for v in regs * min(1.0, 100.0 / n))


@dataclass(frozen=True)
class Units:
    """x -> (x - middle) / spread: z-scores on the pooled rows, or the identity."""

    middle: np.ndarray
    spread: np.ndarray

    @classmethod
    def identity(cls, d: int) -> Units:
        return cls(np.zeros(d), np.ones(d))

    @classmethod
    def pooled(cls, X: np.ndarray, X_target: np.ndarray | None, s: np.ndarray | None) -> Units:
        """Mean and standard deviation of source rows (with frequencies) and target rows together."""
        samples = [(X, s)] if X_target is None else [(X, s), (X_target, None)]
        # Squares of 1e150 or 1e-150 leave the range of doubles: everything is measured in units of the largest.
        largest = np.max([np.abs(rows).max(axis=0) for rows, _ in samples], axis=0).astype(np.float64)
        largest[largest == 0] = 1.0
        n = sum(float(len(rows)) if t is None else float(t.sum()) for rows, t in samples)
        mean = sum(_weighted_sum(rows, t, lambda x: x / largest) for rows, t in samples) / n
        square = sum(_weighted_sum(rows, t, lambda x: (x / largest - mean) ** 2) for rows, t in samples) / n
        spread = np.sqrt(square)
        # A constant column stays a column of zeros: rounding must not be blown up to variation.
        constant = spread <= 1e-12
        return cls(mean * largest, np.where(constant, 1.0, spread) * largest)

    def apply(self, X: np.ndarray) -> np.ndarray:
        return (X - self.middle) / self.spread

    def invert(self, X: np.ndarray) -> np.ndarray:
        return X * self.spread + self.middle


def _weighted_sum(rows: np.ndarray, s: np.ndarray | None, function: Any) -> np.ndarray:
    def sums(x: np.ndarray, s: np.ndarray | None) -> np.ndarray:
        values = function(x.astype(np.float64, copy=False))
        return values.sum(axis=0) if s is None else s @ values

    return sum_over_blocks(sums, rows, s, floats_per_row=3 * rows.shape[1])


@dataclass(frozen=True)
class Entry:
    """One fit behind the door. Without a target the source rows stand in for it, and `g` is held at one."""

    sample: Sample
    units: Units
    kept: np.ndarray | None  # which of the caller's source rows have positive frequency; None: all
    n_rows: int
    has_target: bool
    labels: np.ndarray  # (n_rows,) what a stratified split looks at

    def folds(self, cv: Any, stratify: bool, random_state: int) -> list[Fold]:
        """Paired folds; an integer `cv` goes by what rows are (`content_folds`), so frequencies equal copies there.

        Splitters and index pairs count the caller's rows; those of frequency zero are taken out.
        """
        sample = self.sample
        n_target = len(sample.X_target) if self.has_target else 0
        if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
            labels = self.labels if self.kept is None else self.labels[self.kept]
            folds = content_folds(cv, sample.X, labels, n_target, stratify=stratify, random_state=random_state)
        else:
            X = sample.X if self.kept is None else np.zeros((self.n_rows, 1))
            folds = paired_folds(cv, X, self.labels, n_target, random_state=random_state)
            if self.kept is not None:
                folds = [_renumber(fold, self.kept, self.n_rows) for fold in folds]
        if not self.has_target:
            folds = [Fold(fold.train, fold.test, fold.train, fold.test) for fold in folds]
        check_folds(folds, sample.s)
        return folds


def _renumber(fold: Fold, kept: np.ndarray, n_rows: int) -> Fold:
    position = np.full(n_rows, -1)
    position[kept] = np.arange(len(kept))
    train, test = position[fold.train], position[fold.test]
    return Fold(train[train >= 0], test[test >= 0], fold.target_train, fold.target_test)


def make_entry(
    X: np.ndarray,
    Y: np.ndarray,
    s: np.ndarray | None,
    X_target: np.ndarray | None,
    labels: np.ndarray,
    *,
    standardize: bool,
    intercept: bool,
    basis: str,
    n_centers: int,
    centers: str,
    rng: np.random.Generator,
) -> Entry:
    """Scale the rows, drop those of frequency zero, draw the centres."""
    n_rows, kept = len(X), None
    if s is not None and not s.all():
        kept = np.flatnonzero(s)
        X, Y, s = X[kept], Y[kept], s[kept]
    units = Units.pooled(X, X_target, s) if standardize else Units.identity(X.shape[1])
    rows = units.apply(X)
    if X_target is None:
        rows_target = rows
    else:
        rows_target = units.apply(X_target)
        rows_target = rows_target[np.lexsort(rows_target.T[::-1])]  # their order must not matter
    C = draw_centers(rows, None if X_target is None else rows_target, n_centers, centers, rng)
    family: type[Basis] = BASES[basis]
    sample = Sample(rows, Y, s, rows_target, family.from_centers(C), intercept)
    return Entry(sample, units, kept, n_rows, X_target is not None, labels)


def shared_median(entry: Entry, centers: np.ndarray) -> float:
    """The bandwidth that "median" stands for, in the sample's units."""
    target = entry.sample.X_target if entry.has_target else None
    return median_bandwidth(entry.sample.X, target, centers, entry.sample.s)
