"""Importance-weighted cross-validation (section 2.2 of the paper): the held-out loss, as the target would see it."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import check_scoring, get_scorer
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, column_or_1d, has_fit_parameter

from covshift._checks import (
    Target,
    as_generator,
    check_choice,
    check_weights,
    no_target,
    refuse_target_as_labels,
    unwrap_target,
)
from covshift._learner import check_takes_weights, fit_weighted, seeded_clone
from covshift._split import Fold
from covshift.exceptions import AllWeightsZeroError, NoTargetWarning, OverlapWarning
from covshift.ratio import ClassifierRatio
from covshift.ratio._overlap import effective_sample_size, warn_overlap
from covshift.weighting._erm import labelled_folds, refuse_words

__all__ = ["WEIGHTINGS", "Problem", "Settings", "Trial", "fit_all", "iw_cross_validate", "prepare", "run_trial"]

WEIGHTINGS = ("self_normalized", "plain")


@dataclass(frozen=True)
class Settings:
    """How to judge, in the words of `iw_cross_validate`."""

    ratio: Any
    scoring: Any
    cv: Any
    n_jobs: int | None
    weighting: str
    random_state: Any


@dataclass(frozen=True)
class Problem:
    """Everything that candidates share: rows, folds, and the held-out importance of every fold."""

    X: Any
    y: Any
    X_target: Any  # None: no target
    s: np.ndarray | None
    folds: list[Fold]
    importance: list[np.ndarray]  # of the rows folds[k].test, without frequencies
    scorer: Callable[..., float]
    weighting: str

    def weights(self) -> np.ndarray:
        """Held-out importance of every source row, averaged where a row is held out more than once; 0 where never."""
        total, count = np.zeros(_num_samples(self.X)), np.zeros(_num_samples(self.X))
        for fold, w in zip(self.folds, self.importance, strict=True):
            np.add.at(total, fold.test, w)
            np.add.at(count, fold.test, 1.0)
        return np.divide(total, count, out=np.zeros_like(total), where=count > 0)


@dataclass(frozen=True)
class Trial:
    """One candidate on one fold."""

    score: float
    unweighted: float
    fit_time: float
    score_time: float
    estimator: Any


def prepare(
    owner: Any, estimator: Any, X: Any, y: Any, X_target: Any, s: Any, groups: Any, settings: Settings
) -> Problem:
    """Check everything, cut paired folds, and fit the ratio to each training fold's pair of samples."""
    check_choice("weighting", settings.weighting, WEIGHTINGS)
    scorer = weighted_scorer(estimator, settings.scoring)
    X, y, groups, s = _check_labelled(owner, estimator, X, y, groups, s)
    X_target = unwrap_target(X_target)
    if X_target is not None and not hasattr(X_target, "shape"):
        X_target = np.asarray(X_target)
    n_target = 0 if X_target is None else _num_samples(X_target)
    seed_folds, seed_ratio = (int(k) for k in as_generator(settings.random_state).integers(2**31 - 1, size=2))
    folds = _folds(settings.cv, X, y, s, n_target, is_classifier(estimator), groups, seed_folds)
    if X_target is None:
        no_target(owner)
        importance = [np.ones(len(fold.test)) for fold in folds]
        return Problem(X, y, None, s, folds, importance, scorer, settings.weighting)
    if settings.ratio is None:
        refuse_words(X)
    ratio = seeded_clone(ClassifierRatio() if settings.ratio is None else settings.ratio, seed_ratio)
    importance = Parallel(n_jobs=settings.n_jobs)(
        delayed(_held_out_importance)(clone(ratio), X, X_target, s, fold) for fold in folds
    )
    for k, (fold, w) in enumerate(zip(folds, importance, strict=True)):
        if not np.any(w > 0):
            raise AllWeightsZeroError(
                f"the ratio of fold {k} is zero at all of its {len(fold.test)} held-out source rows, so they say "
                "nothing about the target. Use ratio=ClassifierRatio(), whose ratio is positive, or a smaller cv"
            )
    problem = Problem(X, y, X_target, s, folds, importance, scorer, settings.weighting)
    _warn(owner, problem)
    return problem


def _check_labelled(
    owner: Any, estimator: Any, X: Any, y: Any, groups: Any, s: Any
) -> tuple[Any, Any, Any, np.ndarray | None]:
    if y is None:
        raise ValueError(f"{type(owner).__name__} requires y to be passed, but the target y is None.")
    refuse_target_as_labels(y)
    y = column_or_1d(y, warn=True)
    if is_classifier(estimator):
        check_classification_targets(y)
    X, y, groups = indexable(X, y, groups)
    if _num_samples(X) < 2:
        raise ValueError(f"X has n_samples={_num_samples(X)}: cross-validation needs at least 2 source rows")
    s = check_weights(s, X)
    if s is not None:
        check_takes_weights(owner, estimator)
    return X, y, groups, s


def run_trial(estimator: Any, parameters: dict[str, Any], problem: Problem, k: int) -> Trial:
    """Fit a clone with `parameters` to fold k's training rows and score it on its held-out rows.

    The score is the scorer's with sample_weight = s w; for means of losses that is sum s w l / sum s w, and "plain"
    multiplies it by the fold's mean weight, which gives sum s w l / sum s.
    """
    fold, w, s = problem.folds[k], problem.importance[k], problem.s
    candidate = clone(estimator).set_params(**clone(parameters, safe=False))
    start = time.perf_counter()
    with warnings.catch_warnings():  # each fold would say again what is said once
        warnings.simplefilter("ignore", OverlapWarning)
        warnings.simplefilter("ignore", NoTargetWarning)
        _fit(candidate, problem, fold.train, fold.target_train)
    fitted = time.perf_counter()
    X, y = _safe_indexing(problem.X, fold.test), _safe_indexing(problem.y, fold.test)
    frequencies = np.ones(len(fold.test)) if s is None else s[fold.test]
    score = float(problem.scorer(candidate, X, y, sample_weight=frequencies * w))
    unweighted = float(problem.scorer(candidate, X, y, sample_weight=frequencies))
    if problem.weighting == "plain":
        score *= float(np.average(w, weights=frequencies))
    return Trial(score, unweighted, fitted - start, time.perf_counter() - fitted, candidate)


def fit_all(estimator: Any, problem: Problem) -> Any:
    """Fit to all source rows and all target rows."""
    kept = np.arange(_num_samples(problem.X)) if problem.s is None else np.flatnonzero(problem.s)
    everything = None if problem.X_target is None else np.arange(_num_samples(problem.X_target))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoTargetWarning)
        return _fit(estimator, problem, kept, everything)


def _fit(estimator: Any, problem: Problem, rows: np.ndarray, target_rows: np.ndarray | None) -> Any:
    """`X_target` goes to learners that take it, as a `Target`; frequencies to all, if there are any."""
    X, y = _safe_indexing(problem.X, rows), _safe_indexing(problem.y, rows)
    s = None if problem.s is None else problem.s[rows]
    if has_fit_parameter(estimator, "X_target"):
        X_target = None if problem.X_target is None else Target(_safe_indexing(problem.X_target, target_rows))
        return estimator.fit(X, y, X_target=X_target, **({} if s is None else {"sample_weight": s}))
    if s is None:
        return estimator.fit(X, y)
    # A pipeline comes back as a new one; the candidate itself is what its owner scores.
    fitted = fit_weighted(estimator, X, y, s, frequencies=s)
    if fitted is not estimator:
        estimator.steps = fitted.steps
    return estimator


def weighted_scorer(estimator: Any, scoring: Any) -> Callable[..., float]:
    """A scorer that takes sample_weight: the one named; None is accuracy, R^2, or the learner's own score."""
    if not hasattr(estimator, "fit"):
        raise TypeError(f"estimator={estimator!r}: expected a learner with fit")
    if isinstance(scoring, list | tuple | set | dict):
        raise ValueError(f"scoring={scoring!r}: expected one metric, which decides what is best; give its name alone")
    if scoring is None and (is_classifier(estimator) or is_regressor(estimator)):
        scoring = "accuracy" if is_classifier(estimator) else "r2"
    scorer = get_scorer(scoring) if isinstance(scoring, str) else check_scoring(estimator, scoring=scoring)
    if scoring is None:
        scorer = _own_score
    metric = estimator.score if scoring is None else getattr(scorer, "_score_func", scorer)
    parameters = inspect.signature(metric).parameters
    if "sample_weight" not in parameters:
        raise ValueError(
            f"scoring={scoring!r} takes no sample_weight, so it cannot be importance-weighted: use a metric that "
            "does (r2, neg_mean_squared_error, accuracy, neg_log_loss, roc_auc, ...)"
        )
    return scorer


def _own_score(estimator: Any, X: Any, y: Any, sample_weight: np.ndarray) -> float:
    return estimator.score(X, y, sample_weight=sample_weight)


def _folds(
    cv: Any, X: Any, y: Any, s: np.ndarray | None, n_target: int, stratify: bool, groups: Any, seed: int
) -> list[Fold]:
    """Paired folds without rows of frequency zero, which for an integer `cv` are not there at all."""
    y = np.asarray(y)
    if s is None or s.all():
        return labelled_folds(cv, X, y, n_target, stratify, seed, groups)
    if isinstance(cv, int | np.integer):
        kept = np.flatnonzero(s)
        folds = labelled_folds(cv, _safe_indexing(X, kept), y[kept], n_target, stratify, seed)
        return [Fold(kept[f.train], kept[f.test], f.target_train, f.target_test) for f in folds]
    folds = labelled_folds(cv, X, y, n_target, stratify, seed, groups)
    folds = [Fold(f.train[s[f.train] > 0], f.test[s[f.test] > 0], f.target_train, f.target_test) for f in folds]
    return [fold for fold in folds if len(fold.test)]


def _held_out_importance(ratio: Any, X: Any, X_target: Any, s: np.ndarray | None, fold: Fold) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        ratio.fit(
            _safe_indexing(X, fold.train),
            X_target=Target(_safe_indexing(X_target, fold.target_train)),
            sample_weight=None if s is None else s[fold.train],
        )
    return ratio.predict(_safe_indexing(X, fold.test))


def _warn(owner: Any, problem: Problem) -> None:
    rows = np.unique(np.concatenate([fold.test for fold in problem.folds]))
    X, X_target = _safe_indexing(problem.X, rows), problem.X_target
    numbers = all(isinstance(a, np.ndarray) and a.dtype.kind in "iuf" for a in (X, X_target))
    finite = numbers and bool(np.isfinite(X).all() and np.isfinite(X_target).all())
    s = None if problem.s is None else problem.s[rows]
    warn_overlap(owner, problem.weights()[rows], X, X_target if finite else None, s=s, stacklevel=5)


def standard_error(scores: np.ndarray) -> float:
    """Standard deviation of the fold scores over the root of their number; NaN for one fold."""
    return float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else float("nan")


def iw_cross_validate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    X_target: Any = None,
    sample_weight: Any = None,
    ratio: Any = None,
    scoring: Any = None,
    cv: Any = 5,
    groups: Any = None,
    n_jobs: int | None = None,
    weighting: str = "self_normalized",
    return_estimator: bool = False,
    random_state: Any = None,
) -> dict[str, Any]:
    """Cross-validated score of a learner on the target, from labelled source rows (Sugiyama et al. 2007).

    score = mean over folds of sum_i w_i score_i / sum_i w_i over the fold's held-out source rows,
    w_i the ratio p_target / p_source that was estimated on the fold's training rows of both samples.

    Source and target are cut into folds side by side, so no held-out row shapes its own weight. The weights change
    the judgement alone: the learner itself is fitted to the training rows as it always is. For a learner that is
    weighted too, wrap it (`ImportanceWeighted`) or use `OneStepRegressor` and its kin: whatever has `X_target` in its
    `fit` gets the fold's target rows, as a `Target`.

    Parameters
    ----------
    estimator : learner
    X, y : labelled source rows
    X_target : unlabelled target rows; None is plain cross-validation, with a `NoTargetWarning`
    sample_weight : frequencies of the source rows
    ratio : ratio estimator; None is `ClassifierRatio()`
    scoring : name or scorer of a metric that takes sample_weight; None is accuracy or R^2
    cv, groups : integer (stratified for classifiers), splitter or source index pairs
    n_jobs : processes over folds (joblib)
    weighting : "self_normalized" (weights of a fold sum to one: stable, slightly biased) or "plain" (the mean of
        w_i score_i: unbiased for the true ratio, for means of losses only)
    return_estimator : also return the fitted fold models
    random_state : folds, and the draws of a ratio whose own random_state is None

    Returns
    -------
    dict with, one a fold, `fit_time`, `score_time`, `test_score` (weighted), `unweighted_test_score`, and `estimator`
    if asked for; and `weighted_score` (mean of `test_score`), `standard_error` (of that mean, from the folds),
    `weights` (held-out importance of every source row) and `ess` (their effective number of rows)

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from covshift import Target
    >>> from covshift.model_selection import iw_cross_validate
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(0, 1, (200, 2)), rng.normal(0.5, 1, (200, 2))
    >>> y = X[:, 0] ** 2 + 0.1 * rng.normal(size=200)
    >>> result = iw_cross_validate(Ridge(), X, y, X_target=Target(X_target), random_state=0)
    >>> len(result["test_score"]), result["standard_error"] > 0
    (5, True)
    """
    settings = Settings(ratio, scoring, cv, n_jobs, weighting, random_state)
    problem = prepare(estimator, estimator, X, y, X_target, sample_weight, groups, settings)
    trials = Parallel(n_jobs=n_jobs)(delayed(run_trial)(estimator, {}, problem, k) for k in range(len(problem.folds)))
    scores = np.array([trial.score for trial in trials])
    w = problem.weights()
    result = {
        "fit_time": np.array([trial.fit_time for trial in trials]),
        "score_time": np.array([trial.score_time for trial in trials]),
        "test_score": scores,
        "unweighted_test_score": np.array([trial.unweighted for trial in trials]),
        "weighted_score": float(scores.mean()),
        "standard_error": standard_error(scores),
        "weights": w,
        "ess": effective_sample_size(w, problem.s),
    }
    if return_estimator:
        result["estimator"] = [trial.estimator for trial in trials]
    return result
