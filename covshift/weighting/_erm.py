"""ImportanceWeighted: any learner, any ratio, flattened; IWERM, EIWERM and RIWERM of section 2.2 of the paper."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d, validate_data

from covshift._checks import (
    as_generator,
    check_grid,
    check_number,
    check_target,
    check_weights,
    no_target,
    refuse_target_as_labels,
    unwrap_target,
)
from covshift._learner import check_takes_weights, fit_weighted, seeded_clone
from covshift._split import Fold, content_folds, paired_folds
from covshift.exceptions import AllWeightsZeroError, OverlapWarning
from covshift.ratio import ULSIF
from covshift.ratio._odds import row_codes
from covshift.ratio._overlap import effective_sample_size, max_weight_share, warn_overlap
from covshift.weighting._transforms import flatten

__all__ = ["ImportanceWeighted", "labelled_folds", "refuse_words"]

# Arrays reach the learner as they are; what it cannot take, it says itself.
_ARRAYS: dict[str, Any] = {"dtype": None, "accept_sparse": True, "ensure_all_finite": False}


def _inner_has(name: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), name)


class ImportanceWeighted(MetaEstimatorMixin, BaseEstimator):
    """Importance-weighted empirical risk minimisation with any learner that takes `sample_weight`.

    f = argmin mean_source g(x)^gamma loss(f(x), y) + the learner's own regularisation,

    g the estimated ratio p_target / p_source and gamma the `flattening`: 1 is IWERM, between 0 and 1 EIWERM, 0 the
    plain learner; with `ratio=RuLSIF(relative_alpha=...)` it is RIWERM. The learner is fitted to the source rows with
    sample_weight = weights_ (times the frequencies), on the ratio's scale (`covshift.weighting`): what a pipeline's
    last step receives, while the steps before it see the rows unweighted. Consistent where the ratio is right and the
    source covers the target; where it does not, see `OverlapWarning`.

    Parameters
    ----------
    estimator : regressor or classifier whose `fit` takes sample_weight, or a pipeline that ends in one; others are
        refused before anything is computed. Frames reach it unconverted
    ratio : a ratio estimator; None is `ULSIF()`, for rows of numbers
    flattening : gamma in [0, 1], or a sequence of them: then the one with the smallest importance-weighted
        cross-validated loss (squared error; misclassification), the ratio fitted anew on each fold's rows
    cv : integer, splitter or source index pairs, for that search
    random_state : folds, and the draws of a ratio whose own random_state is None

    Attributes
    ----------
    estimator_ : the fitted learner
    ratio_ : the fitted ratio estimator; None where no target was given or the flattening is 0 alone
    weights_ : (n,) g(x)^gamma of the training rows
    flattening_ : gamma in use
    cv_results_ : `param_flattening`, `mean_test_score` (minus the weighted loss; NaN where nothing was searched)
    ess_, max_weight_share_ : effective number of rows under `weights_`, and the largest share of one
    adapted_ : False where all weights are equal
    classes_ : of classifiers

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from covshift.weighting import ImportanceWeighted
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(1, 0.5, (150, 1)), rng.normal(1.5, 0.4, (150, 1))
    >>> y = np.sin(3 * X[:, 0])
    >>> model = ImportanceWeighted(Ridge(), random_state=0).fit(X, y, X_target=X_target)
    >>> by_hand = Ridge().fit(X, y, sample_weight=model.weights_)
    >>> bool(np.allclose(model.predict(X), by_hand.predict(X)))
    True
    """

    def __init__(
        self,
        estimator: Any,
        ratio: Any = None,
        flattening: Any = 1.0,
        *,
        cv: Any = 5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.ratio = ratio
        self.flattening = flattening
        self.cv = cv
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.input_tags.sparse, inner.input_tags.allow_nan
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any, *, X_target: Any = None, sample_weight: Any = None) -> Self:
        """Fit to labelled source rows (X, y) and unlabelled target rows; without `X_target` all weights are one."""
        gammas = self._check_parameters()
        refuse_target_as_labels(y)
        X, y = self._check_labelled(X, y)
        X_target = self._check_rows(unwrap_target(X_target), reset=False, target=True)
        s = check_weights(sample_weight, X)
        if X_target is None:
            no_target(self)
            gammas = (0.0,)
        if self.ratio is None and gammas != (0.0,):
            refuse_words(X)
        kept = np.flatnonzero(s) if s is not None and not s.all() else None
        rows, labels = (X, y) if kept is None else (_safe_indexing(X, kept), y[kept])
        frequencies = s if kept is None or s is None else s[kept]

        ratio, self._seed = self._ratio_estimator()
        self.flattening_ = gammas[0]
        scores = np.full(len(gammas), np.nan)
        if len(gammas) > 1:
            scores = self._scores(ratio, rows, labels, X_target, frequencies, gammas)
            self.flattening_ = gammas[int(np.argmax(scores))]
        self.cv_results_ = {"param_flattening": np.array(gammas), "mean_test_score": scores}
        self.ratio_ = _fit_ratio(ratio, rows, X_target, frequencies) if gammas != (0.0,) else None

        inside = np.ones(len(labels)) if self.ratio_ is None else flatten(self.ratio_.weights_, self.flattening_)
        self.estimator_ = self._fit_learner(rows, labels, inside, frequencies)
        self._report(X, inside, kept, s, rows, X_target)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions of the learner."""
        X = self._check_new(X)
        return self.estimator_.predict(X)

    @available_if(_inner_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities of the learner."""
        X = self._check_new(X)
        return self.estimator_.predict_proba(X)

    @available_if(_inner_has("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities of the learner."""
        X = self._check_new(X)
        return self.estimator_.predict_log_proba(X)

    @available_if(_inner_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the learner."""
        X = self._check_new(X)
        return self.estimator_.decision_function(X)

    @available_if(_inner_has("score"))
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The learner's own score (R^2 or accuracy), unweighted unless `sample_weight` is given."""
        X = self._check_new(X)
        if sample_weight is None:
            return self.estimator_.score(X, y)
        return self.estimator_.score(X, y, sample_weight=sample_weight)

    def predict_weights(self, X: Any) -> np.ndarray:
        """The importance g(x)^gamma >= 0 at any rows, shape (n,)."""
        X = self._check_new(X)
        return np.ones(_num_samples(X)) if self.ratio_ is None else flatten(self.ratio_.predict(X), self.flattening_)

    @property
    def classes_(self) -> np.ndarray:
        """Class labels of a fitted classifier."""
        return self.estimator_.classes_

    def _check_parameters(self) -> tuple[float, ...]:
        check_takes_weights(self, self.estimator)
        if self.ratio is not None and not (hasattr(self.ratio, "fit") and hasattr(self.ratio, "predict")):
            raise TypeError(f"ratio={self.ratio!r}: expected a ratio estimator such as ULSIF() or ClassifierRatio()")
        gammas = check_grid("flattening", self.flattening, open_low=False)
        assert not isinstance(gammas, str)
        return tuple(check_number("flattening", gamma, 0.0, 1.0) for gamma in gammas)

    def _ratio_estimator(self) -> tuple[Any, int]:
        """(An unfitted ratio, the seed of the folds)."""
        rng = as_generator(self.random_state)
        seed_ratio, seed_folds = (int(seed) for seed in rng.integers(2**31 - 1, size=2))
        return seeded_clone(ULSIF() if self.ratio is None else self.ratio, seed_ratio), seed_folds

    def _fit_learner(self, X: Any, y: np.ndarray, w: np.ndarray, s: np.ndarray | None) -> Any:
        return fit_weighted(clone(self.estimator), X, y, w if s is None else s * w, frequencies=s)

    def _scores(
        self, ratio: Any, X: Any, y: np.ndarray, X_target: Any, s: np.ndarray | None, gammas: tuple[float, ...]
    ) -> np.ndarray:
        """Minus sum w l / sum w over all held-out rows, w = s g of the fold's own ratio; one a flattening."""
        folds = labelled_folds(self.cv, X, y, _num_samples(X_target), is_classifier(self.estimator), self._seed)
        loss, mass = np.zeros(len(gammas)), 0.0
        for fold in folds:
            train, test = _safe_indexing(X, fold.train), _safe_indexing(X, fold.test)
            s_train, s_test = (None, None) if s is None else (s[fold.train], s[fold.test])
            fitted = _fit_ratio(clone(ratio), train, _safe_indexing(X_target, fold.target_train), s_train)
            w_test = fitted.predict(test) if s_test is None else s_test * fitted.predict(test)
            mass += float(w_test.sum())
            for k, gamma in enumerate(gammas):
                f = self._fit_learner(train, y[fold.train], flatten(fitted.weights_, gamma), s_train)
                loss[k] += float(w_test @ self._losses(f.predict(test), y[fold.test]))
        if mass == 0:
            raise AllWeightsZeroError(
                f"ratio={ratio!r} is zero at every held-out row, so no flattening can be scored: give it a larger "
                "bandwidth or regularisation, or one fixed flattening"
            )
        return -loss / mass

    def _losses(self, prediction: np.ndarray, y: np.ndarray) -> np.ndarray:
        if is_classifier(self.estimator):
            return (prediction != y).astype(float)
        return (prediction - y) ** 2

    def _report(
        self, X: Any, inside: np.ndarray, kept: np.ndarray | None, s: np.ndarray | None, rows: Any, X_target: Any
    ) -> None:
        self.weights_ = inside
        if kept is not None:
            self.weights_ = self.predict_weights(X)
            self.weights_[kept] = inside
        self.ess_ = effective_sample_size(self.weights_, s)
        self.max_weight_share_ = max_weight_share(self.weights_, s)
        self.adapted_ = bool(np.ptp(inside) > 0)
        numbers = all(isinstance(a, np.ndarray) and a.dtype.kind in "iuf" for a in (rows, X_target))
        finite = numbers and bool(np.isfinite(rows).all() and np.isfinite(X_target).all())
        if X_target is not None:
            warn_overlap(
                self,
                inside,
                rows,
                X_target if finite else None,
                s=s if kept is None or s is None else s[kept],
                stacklevel=4,
            )

    def _check_labelled(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            )
        X = self._check_rows(X, reset=True)
        y = column_or_1d(y, warn=True)
        if len(y) != _num_samples(X):
            raise ValueError(f"X has {_num_samples(X)} rows and y {len(y)} labels: every source row needs a label")
        return X, y

    def _check_rows(self, X: Any, *, reset: bool, target: bool = False) -> Any:
        """Frames as they are, their columns checked; anything else as an array."""
        if X is None and target:
            return None
        rules = {"skip_check_array": True} if hasattr(X, "columns") else _ARRAYS
        return check_target(self, X, **rules) if target else validate_data(self, X, reset=reset, **rules)

    def _check_new(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._check_rows(X, reset=False)


def labelled_folds(
    cv: Any, X: Any, y: np.ndarray, n_target: int, stratify: bool, seed: int, groups: Any = None
) -> list[Fold]:
    """Paired folds; an integer `cv` goes by what the rows are, so that a row of frequency k is k copies."""
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        rows = X if hasattr(X, "columns") or hasattr(X, "tocsr") else np.asarray(X)
        labels = np.unique(y, return_inverse=True)[1]
        codes = row_codes(rows) if len(rows.shape) == 2 else np.arange(len(rows))[:, None]
        return content_folds(cv, codes, labels, n_target, stratify=stratify, random_state=seed)
    return paired_folds(cv, X, y, n_target, groups=groups, random_state=seed)


def refuse_words(X: Any) -> None:
    """The default ratio is one of numbers; say so by column before the learner's own columns come into it."""
    if not hasattr(X, "columns"):
        return
    words = [str(name) for name in X.columns if np.asarray(X[name]).dtype.kind not in "biuf"]
    if words:
        raise ValueError(
            f"X has columns that are not numbers ({', '.join(words)}), which the default ratio cannot take: give "
            "ratio=ClassifierRatio(classifier) with a classifier or pipeline that takes the whole frame"
        )


def _fit_ratio(ratio: Any, X: Any, X_target: Any, s: np.ndarray | None) -> Any:
    """The ratio's own words on few effective rows would be about weights that are not flattened yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        return ratio.fit(X, X_target=X_target, sample_weight=s)
