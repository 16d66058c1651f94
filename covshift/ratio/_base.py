"""The contract of a ratio estimator: validation, the constant ratio without a target, and what every fit reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from covshift._checks import check_target, check_weights, no_target, refuse_matrix_y
from covshift._split import Fold, paired_folds
from covshift.exceptions import AllWeightsZeroError
from covshift.ratio._overlap import effective_sample_size, max_weight_share, warn_overlap

__all__ = ["RatioEstimator", "RatioSample"]


@dataclass(frozen=True)
class RatioSample:
    """What a fit sees: source rows of positive frequency, target rows, frequencies.

    `kept` says which of the caller's `n_rows` rows these are (None: all of them).
    """

    X: Any  # (n_source, d)
    X_target: Any  # (n_target, d)
    s: np.ndarray | None  # (n_source,), all > 0
    kept: np.ndarray | None
    n_rows: int

    def folds(self, cv: Any, random_state: Any) -> list[Fold]:
        """Paired folds of `X` and `X_target`.

        For an integer `cv` equal source rows share a fold, so a row of frequency k is k copies there too. Splitters
        and index pairs count the caller's rows; rows of frequency zero are then taken out.
        """
        n_target = _num_samples(self.X_target)
        if isinstance(cv, int | np.integer):
            distinct, which = np.unique(np.asarray(self.X), axis=0, return_inverse=True)
            if len(distinct) == 1:
                raise ValueError(
                    f"X has 1 distinct row, which cv={cv} cannot cut into folds: give source rows that differ, or "
                    "fixed hyperparameters (scalars), which need no search"
                )
            folds = paired_folds(cv, distinct, None, n_target, random_state=random_state)
            return [_relabel(fold, lambda part: np.flatnonzero(np.isin(which.ravel(), part))) for fold in folds]
        folds = paired_folds(cv, np.empty((self.n_rows, 0)), None, n_target, random_state=random_state)
        if self.kept is None:
            return folds
        position = np.full(self.n_rows, -1)
        position[self.kept] = np.arange(len(self.kept))
        return [_relabel(fold, lambda part: position[part][position[part] >= 0]) for fold in folds]


def _relabel(fold: Fold, rows: Any) -> Fold:
    return Fold(rows(fold.train), rows(fold.test), fold.target_train, fold.target_test)


class RatioEstimator(BaseEstimator, ABC):
    """r(x) = p_target(x) / p_source(x), from rows of both; a row typical of the target gets a large weight.

    A new estimator defines `_check_parameters`, `_fit_ratio`, `_predict_ratio` and `_score_ratio`; this class does
    the rest: the door, frequencies, the constant ratio where there is no target, and the attributes

    weights_ : (n,) ratio on the training rows
    divergence_ : estimated divergence of the two samples; 0 without a target
    ess_, max_weight_share_ : effective number of source rows under `weights_`, and the largest share of one
    adapted_ : False where all weights are equal
    """

    def fit(self, X: Any, y: Any = None, *, X_target: Any = None, sample_weight: Any = None) -> Self:
        """Estimate the ratio from source rows `X` (frequencies `sample_weight`) and target rows `X_target`.

        `y` is ignored. Without `X_target` the ratio is the constant 1, and a `NoTargetWarning` says so.
        """
        refuse_matrix_y(y)
        self._check_parameters()
        X = self._check_rows(X, reset=True)
        X_target = self._check_target_rows(X_target, X)
        s = check_weights(sample_weight, X)
        n = _num_samples(X)
        self._without_target = X_target is None
        if X_target is None:
            no_target(self)
            weights, self.divergence_ = self._ones(X), 0.0
        else:
            kept = None if s is None or s.all() else np.flatnonzero(s)
            rows = X if kept is None else _safe_indexing(X, kept)
            frequencies = s if kept is None or s is None else s[kept]
            sample = RatioSample(rows, X_target, frequencies, kept, n)
            weights, self.divergence_ = self._fit_ratio(sample)
            if not weights.max() > 0:
                raise AllWeightsZeroError(self._all_zero_message(n))
            if kept is not None:
                inside, weights = weights, self._predict_ratio(X)
                weights[kept] = inside
        self.weights_ = weights
        self.ess_ = effective_sample_size(weights, s)
        self.max_weight_share_ = max_weight_share(weights, s)
        self.adapted_ = bool(np.ptp(weights) > 0)
        if X_target is not None:
            self._warn_overlap(sample)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The estimated ratio at rows X, shape (n,), never negative."""
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        return self._ones(X) if self._without_target else self._predict_ratio(X)

    def score(self, X: Any, y: Any = None, *, X_target: Any = None, sample_weight: Any = None) -> float:
        """Quality of the ratio on rows of both samples, greater is better; 0.0 for the constant ratio 1."""
        check_is_fitted(self)
        refuse_matrix_y(y)
        X = self._check_rows(X, reset=False)
        s = check_weights(sample_weight, X)
        if self._without_target:
            return 0.0
        X_target = self._check_target_rows(X_target, X)
        if X_target is None:
            raise ValueError(
                f"{type(self).__name__}.score needs X_target=None to be target rows: a ratio is judged on rows of "
                "both samples, score(X, X_target=...)"
            )
        return self._score_ratio(X, X_target, s)

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense, with or without a target."""

    @abstractmethod
    def _fit_ratio(self, sample: RatioSample) -> tuple[np.ndarray, float]:
        """Fit to rows of both samples; return `weights_` of the rows in `sample.X` and `divergence_`."""

    @abstractmethod
    def _predict_ratio(self, X: Any) -> np.ndarray:
        """The ratio at checked rows, (n,), >= 0, a new array."""

    @abstractmethod
    def _score_ratio(self, X: Any, X_target: Any, s: np.ndarray | None) -> float:
        """Greater is better, on checked rows of both samples."""

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        """Rows that the estimator can take; override where it takes more than finite dense numbers."""
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])

    def _check_target_rows(self, X_target: Any, X: Any) -> Any:
        """Target rows with the source's columns and number format, or None."""
        return check_target(self, X_target, dtype=X.dtype)

    def _warn_overlap(self, sample: RatioSample) -> None:
        """Override where rows are not numbers."""
        w = self.weights_ if sample.kept is None else self.weights_[sample.kept]
        warn_overlap(self, w, sample.X, sample.X_target, s=sample.s, stacklevel=4)

    def _all_zero_message(self, n: int) -> str:
        return f"{type(self).__name__}: the ratio is zero at all {n} source rows, so they carry no weight"

    def _ones(self, X: Any) -> np.ndarray:
        return np.ones(_num_samples(X), dtype=getattr(X, "dtype", np.float64))
