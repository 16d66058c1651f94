"""Bandwidth and regularisation of (R)uLSIF: the whole grid at once, by k-fold or by exact leave-one-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from covshift._split import Fold
from covshift.basis import Basis
from covshift.ratio._least_squares import Moments, clipped_betas, moments, relative_second_moment
from covshift.ratio._leave_one_out import leave_one_out_scores

__all__ = ["LeastSquaresSearch", "search_least_squares"]


@dataclass(frozen=True)
class LeastSquaresSearch:
    """Scores of a grid, smaller is better, and its best pair."""

    scores: np.ndarray  # (n_bandwidths, n_regs)
    bandwidths: Sequence[float]
    regs: Sequence[float]

    @property
    def bandwidth(self) -> float:
        return self.ranking()[0][0]

    @property
    def reg(self) -> float:
        return self.ranking()[0][1]

    def ranking(self) -> list[tuple[float, float]]:
        """All pairs, best first."""
        k, r = np.unravel_index(np.argsort(self.scores, axis=None, kind="stable"), self.scores.shape)
        return [(float(self.bandwidths[i]), float(self.regs[j])) for i, j in zip(k, r, strict=True)]


def search_least_squares(
    X: np.ndarray,
    X_target: np.ndarray,
    s: np.ndarray | None,
    basis: Basis,
    bandwidths: Sequence[float],
    regs: Sequence[float],
    folds: Sequence[Fold] | str,
    relative_alpha: float = 0.0,
    n_jobs: int | None = None,
) -> LeastSquaresSearch:
    """The pair (bandwidth, reg) whose (R)uLSIF fit has the smallest held-out score.

    score = mean over folds of (1-a)/2 mean_s g^2 + a/2 mean_t g^2 - mean_t g on the fold's held-out rows, with
    a = relative_alpha, g = beta'psi, beta = max(((1-a) H_s + a H_t + reg I)^-1 h, 0) from its training rows, and s
    the frequencies of the source rows.

    Parameters
    ----------
    X, X_target : (n_source, d), (n_target, d), checked rows
    s : (n_source,) frequencies, or None for ones
    basis : psi
    bandwidths, regs : the grid, regs > 0
    folds : paired folds (`covshift._split.paired_folds`), or "single" or "pairs" for exact leave-one-out
        (`leave_one_out_scores`)
    n_jobs : threads over bandwidths

    Examples
    --------
    >>> import numpy as np
    >>> from covshift._split import paired_folds
    >>> from covshift.basis import GaussianBasis
    >>> X, T = np.linspace(0, 2, 30)[:, None], np.linspace(1, 2, 20)[:, None]
    >>> folds = paired_folds(5, X, None, len(T), random_state=0)
    >>> search = search_least_squares(X, T, None, GaussianBasis(T[::2]), [0.3, 3.0], [0.01, 0.1, 1.0], folds)
    >>> search.scores.shape
    (2, 3)
    """
    widths, grid = np.asarray(bandwidths, dtype=np.float64), np.asarray(regs, dtype=np.float64)

    def scores_of(part: np.ndarray) -> np.ndarray:
        if isinstance(folds, str):
            return leave_one_out_scores(basis, X, X_target, s, part, grid, relative_alpha, folds)
        return fold_scores(basis, X, X_target, s, part, grid, folds, relative_alpha)

    parts = np.array_split(widths, min(effective_n_jobs(n_jobs), len(widths)))
    if len(parts) == 1:
        scores = scores_of(widths)
    else:
        scores = np.vstack(Parallel(n_jobs=len(parts), prefer="threads")(delayed(scores_of)(p) for p in parts))
    return LeastSquaresSearch(scores, bandwidths, regs)


def fold_scores(
    basis: Basis,
    X: np.ndarray,
    X_target: np.ndarray,
    s: np.ndarray | None,
    bandwidths: np.ndarray,
    regs: np.ndarray,
    folds: Sequence[Fold],
    relative_alpha: float,
) -> np.ndarray:
    """k-fold scores (n_bandwidths, n_regs), from b x b moments alone: rows are read once a fold."""
    a, scores = relative_alpha, np.zeros((len(bandwidths), len(regs)))
    whole = moments(basis, X, bandwidths, s)
    whole_target = moments(basis, X_target, bandwidths, second=a > 0)
    for fold in folds:
        test = moments(basis, X, bandwidths, s, subset=fold.test)
        test_target = moments(basis, X_target, bandwidths, subset=fold.target_test, second=a > 0)
        if _is_cut(fold.train, fold.test, len(X)):
            train = whole.without(test)
        else:
            train = moments(basis, X, bandwidths, s, subset=fold.train)
        if _is_cut(fold.target_train, fold.target_test, len(X_target)):
            train_target = whole_target.without(test_target)
        else:
            train_target = moments(basis, X_target, bandwidths, subset=fold.target_train, second=a > 0)
        scores += _held_out(train, train_target, test, test_target, regs, a)
    return scores / len(folds)


def _is_cut(train: np.ndarray, test: np.ndarray, n: int) -> bool:
    """Every row is on exactly one side, so that the training sums are the whole less the held-out part."""
    return len(train) + len(test) == n and bool(np.all(np.bincount(np.concatenate([train, test]), minlength=n) == 1))


def _held_out(
    train: Moments, train_target: Moments, test: Moments, test_target: Moments, regs: np.ndarray, a: float
) -> np.ndarray:
    J = np.empty((len(train.first), len(regs)))
    systems = zip(relative_second_moment(train, train_target, a), train_target.mean, strict=True)
    H_test, h_test = relative_second_moment(test, test_target, a), test_target.mean
    for k, (H, h) in enumerate(systems):
        beta = clipped_betas(H, h, regs)  # (b, n_reg)
        J[k] = 0.5 * np.einsum("jr,jr->r", H_test[k] @ beta, beta) - h_test[k] @ beta
    return J
