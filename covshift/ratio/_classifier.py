"""ClassifierRatio: the odds of a classifier that tells target rows from source rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import _num_samples, validate_data

from covshift._checks import as_generator, check_number, check_target, unwrap_target
from covshift._learner import check_takes_weights, fit_weighted
from covshift._split import Fold
from covshift.ratio._base import RatioEstimator, RatioSample
from covshift.ratio._odds import Sigmoid, fit_sigmoid, fold_units, frame_kind, scores_of, stack_rows
from covshift.ratio._overlap import warn_overlap

__all__ = ["ClassifierRatio"]


@dataclass(frozen=True)
class _FoldModel:
    """A classifier fitted without its fold's rows, and a sigmoid fitted without them too."""

    classifier: Any
    sigmoid: Sigmoid
    log_prior: float  # log n_source / n_target of its training rows

    def log_ratio(self, X: Any) -> np.ndarray:
        return self.sigmoid.log_odds(scores_of(self.classifier, X)) + self.log_prior


@dataclass(frozen=True)
class _HeldOut:
    """Scores of a fold's rows, source above target, by the classifier that has not seen them."""

    scores: np.ndarray
    labels: np.ndarray  # 0 source, 1 target
    s: np.ndarray


class ClassifierRatio(RatioEstimator):
    """The ratio by classification (Qin 1998; Bickel, Brueckner, Scheffer 2009), cross-fitted and calibrated.

    g(x) = p(x) / (1 - p(x)) * n_source / n_target,   p(x) = P(row x is from the target).

    The rows of both samples are cut into paired folds. Fold k's classifier is fitted to the other folds' rows; its
    scores are calibrated by a sigmoid (Platt) that is fitted to the out-of-fold scores of those other folds. So the
    weight of a source row comes from a classifier and a sigmoid that have not seen it: a flexible classifier that
    remembers its rows would call them all source. Isotonic calibration and uncalibrated boosting ruin a ratio (their
    probabilities reach 0 and 1) and are not offered. As a true ratio averages one on the source, the whole is scaled
    so that the out-of-fold weights do (`scale_`, near one where the classifier fits).

    Parameters
    ----------
    estimator : classifier with predict_proba or decision_function, pipelines included; frames reach it unconverted,
        NaN and categories too if it takes them. None: logistic regression on z-scored inputs
    cv : integer, splitter or source index pairs
    clip : number > 1; the ratio of every fold model is kept in [1/clip, clip]
    n_jobs : processes over folds (joblib)
    random_state : draws the folds

    Attributes
    ----------
    weights_ : (n,) out-of-fold ratio of the training rows. `predict` averages the fold models' ratios, which at a
        training row is not the same
    estimators_ : the fitted fold classifiers
    calibration_ : (n_folds, 2) slope and intercept of the sigmoids on their classifiers' scores
    scale_ : factor on all fold models' ratios, after clipping
    divergence_ : Kullback-Leibler divergence mean_target log g + 1 - mean_source g, out of fold; `score` is the same
        on other rows, where it is a lower bound in expectation
    ess_, max_weight_share_, adapted_ : as for every ratio estimator

    Examples
    --------
    >>> import numpy as np
    >>> from covshift.ratio import ClassifierRatio
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(0, 1, (500, 3)), rng.normal(0.5, 1, (500, 3))
    >>> ratio = ClassifierRatio(random_state=0).fit(X, X_target=X_target)
    >>> low, high = ratio.predict([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]])
    >>> bool(low < 0.5 < 2 < high)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        cv: Any = 5,
        clip: float = 1000.0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.clip = clip
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_number("clip", self.clip, 1, np.finfo(float).max, open_low=True)
        if self.estimator is None:
            return
        if not is_classifier(self.estimator):
            raise TypeError(
                f"estimator={self.estimator!r}: expected a classifier, which tells target rows from source rows"
            )
        if not (hasattr(self.estimator, "predict_proba") or hasattr(self.estimator, "decision_function")):
            raise TypeError(
                f"estimator={self.estimator!r} has neither predict_proba nor decision_function, and labels alone are "
                "no odds: use a classifier with either (SVC(probability=False) and LinearSVC have the second)"
            )

    def _classifier(self) -> Any:
        if self.estimator is None:
            return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        return clone(self.estimator)

    def _fit_ratio(self, sample: RatioSample) -> tuple[np.ndarray, float]:
        if sample.s is not None:
            check_takes_weights(self, self._classifier())
        seed = int(as_generator(self.random_state).integers(2**31 - 1))
        folds = replace(sample, X=fold_units(sample.X, sample.X_target)).folds(self.cv, seed)
        classifiers = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_classifier)(self._classifier(), sample, fold) for fold in folds
        )
        held_out = [_held_out(c, sample, fold) for c, fold in zip(classifiers, folds, strict=True)]
        self._models = [
            _FoldModel(c, _sigmoid_without(k, held_out), _log_prior(sample, fold))
            for k, (c, fold) in enumerate(zip(classifiers, folds, strict=True))
        ]
        self.estimators_ = classifiers
        self.calibration_ = np.array([[model.sigmoid.a, model.sigmoid.b] for model in self._models])
        return self._out_of_fold(sample, folds, held_out)

    def _out_of_fold(
        self, sample: RatioSample, folds: list[Fold], held_out: list[_HeldOut]
    ) -> tuple[np.ndarray, float]:
        """Ratio of every source row by the models that have not seen it, and the divergence."""
        n = _num_samples(sample.X)
        total, count = np.zeros(n), np.zeros(n)
        log_total, log_count = 0.0, 0
        for model, fold, out in zip(self._models, folds, held_out, strict=True):
            log_g = self._clipped(model.sigmoid.log_odds(out.scores) + model.log_prior)
            source = out.labels == 0
            np.add.at(total, fold.test, np.exp(log_g[source]))
            np.add.at(count, fold.test, 1.0)
            log_total, log_count = log_total + log_g[~source].sum(), log_count + int(np.sum(~source))
        weights = np.divide(total, count, out=np.zeros(n), where=count > 0)
        if not count.all():  # splitters may leave rows out of every test fold
            left = np.flatnonzero(count == 0)
            weights[left] = self._mean_ratio(_safe_indexing(sample.X, left))
        self.scale_ = 1.0 / float(np.average(weights, weights=sample.s))
        divergence = float(log_total / log_count + np.log(self.scale_))
        return self._as_rows(self.scale_ * weights, sample.X), divergence

    def _clipped(self, log_g: np.ndarray) -> np.ndarray:
        bound = np.log(self.clip)
        return np.clip(log_g, -bound, bound)

    def _mean_ratio(self, X: Any) -> np.ndarray:
        return np.mean([np.exp(self._clipped(model.log_ratio(X))) for model in self._models], axis=0)

    def _predict_ratio(self, X: Any) -> np.ndarray:
        return self._as_rows(self.scale_ * self._mean_ratio(X), X)

    @staticmethod
    def _as_rows(g: np.ndarray, X: Any) -> np.ndarray:
        return g.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else g

    def _score_ratio(self, X: Any, X_target: Any, s: np.ndarray | None) -> float:
        g, g_target = self._predict_ratio(X), self._predict_ratio(X_target)
        return float(1.0 + np.log(g_target).mean() - np.average(g, weights=s))

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        if self.estimator is not None and frame_kind(X) is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            if _num_samples(X) == 0:
                raise ValueError("X is a frame with 0 row(s) (0 sample(s)) while a minimum of 1 is required")
            return X
        return validate_data(self, X, reset=reset, **self._row_kinds())

    def _check_target_rows(self, X_target: Any, X: Any) -> Any:
        rows = unwrap_target(X_target)
        if self.estimator is None or frame_kind(X) is None or rows is None:
            return check_target(self, X_target, **self._row_kinds())
        if frame_kind(rows) != frame_kind(X):
            raise ValueError(
                f"X_target is a {type(rows).__name__} and X a {type(X).__name__}: frames reach the classifier "
                "unconverted, so give both samples as frames of the same kind"
            )
        rows = check_target(self, rows, skip_check_array=True)
        if _num_samples(rows) == 0:
            raise ValueError("X_target is a frame with 0 rows: at least as many target rows as folds are needed")
        return rows

    def _row_kinds(self) -> dict[str, Any]:
        """What the classifier takes, in the words of `check_array`."""
        tags = get_tags(self._classifier()).input_tags
        if tags.categorical or tags.string:
            return {"dtype": None, "accept_sparse": tags.sparse, "ensure_all_finite": not tags.allow_nan}
        return {
            "dtype": [np.float64, np.float32],
            "accept_sparse": "csr" if tags.sparse else False,
            "ensure_all_finite": "allow-nan" if tags.allow_nan else True,
        }

    def _warn_overlap(self, sample: RatioSample) -> None:
        w = self.weights_ if sample.kept is None else self.weights_[sample.kept]
        numbers = isinstance(sample.X, np.ndarray) and sample.X.dtype.kind == "f"
        finite = numbers and bool(np.isfinite(sample.X).all() and np.isfinite(sample.X_target).all())
        warn_overlap(self, w, sample.X, sample.X_target if finite else None, s=sample.s, stacklevel=4)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._classifier()).input_tags
        tags.input_tags.allow_nan, tags.input_tags.sparse = inner.allow_nan, inner.sparse
        tags.input_tags.categorical, tags.input_tags.string = inner.categorical, inner.string
        return tags


def _fit_classifier(classifier: Any, sample: RatioSample, fold: Fold) -> Any:
    X = _safe_indexing(sample.X, fold.train)
    X_target = _safe_indexing(sample.X_target, fold.target_train)
    n, n_target = _num_samples(X), _num_samples(X_target)
    y = np.repeat([0, 1], [n, n_target])
    rows = stack_rows(X, X_target)
    if sample.s is None:
        return classifier.fit(rows, y)
    s = np.concatenate([sample.s[fold.train], np.ones(n_target)])
    return fit_weighted(classifier, rows, y, s, frequencies=s)


def _held_out(classifier: Any, sample: RatioSample, fold: Fold) -> _HeldOut:
    sides = _safe_indexing(sample.X, fold.test), _safe_indexing(sample.X_target, fold.target_test)
    scores = np.concatenate([scores_of(classifier, side) if _num_samples(side) else np.zeros(0) for side in sides])
    n, n_target = len(fold.test), len(fold.target_test)
    s = np.ones(n) if sample.s is None else sample.s[fold.test]
    return _HeldOut(scores, np.repeat([0, 1], [n, n_target]), np.concatenate([s, np.ones(n_target)]))


def _sigmoid_without(k: int, held_out: list[_HeldOut]) -> Sigmoid:
    """Calibration on the out-of-fold scores of all folds but k (of all, where there is only one)."""
    others = [out for j, out in enumerate(held_out) if j != k] or held_out
    scores, labels, s = (np.concatenate([getattr(o, name) for o in others]) for name in ("scores", "labels", "s"))
    return fit_sigmoid(scores, labels, s)


def _log_prior(sample: RatioSample, fold: Fold) -> float:
    n = len(fold.train) if sample.s is None else sample.s[fold.train].sum()
    return float(np.log(n / len(fold.target_train)))
