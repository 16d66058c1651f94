"""IWGridSearchCV and IWRandomizedSearchCV: hyperparameters by importance-weighted cross-validation."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from covshift._checks import check_count
from covshift.ratio._overlap import effective_sample_size, max_weight_share
from covshift.selection._iwcv import Settings, Trial, fit_all, prepare, run_trial, standard_error

__all__ = ["IWGridSearchCV", "IWRandomizedSearchCV"]


def _best_has(name: str) -> Callable[[Any], bool]:
    return lambda self: bool(self.refit) and hasattr(getattr(self, "best_estimator_", self.estimator), name)


class _IWSearch(MetaEstimatorMixin, BaseEstimator):
    """What both searches share: everything but the candidates."""

    estimator: Any
    ratio: Any
    scoring: Any
    cv: Any
    n_jobs: int | None
    refit: bool
    weighting: str
    random_state: Any

    @abstractmethod
    def _candidates(self) -> Iterable[dict[str, Any]]:
        """Parameter settings to try."""

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags, tags.target_tags.required = inner.input_tags, True
        return tags

    def fit(self, X: Any, y: Any, *, X_target: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Score every candidate on labelled source rows (X, y) as the unlabelled target rows would see them."""
        candidates = list(self._candidates())
        settings = Settings(self.ratio, self.scoring, self.cv, self.n_jobs, self.weighting, self.random_state)
        problem = prepare(self, self.estimator, X, y, X_target, sample_weight, groups, settings)
        k = len(problem.folds)
        trials = Parallel(n_jobs=self.n_jobs)(
            delayed(run_trial)(self.estimator, parameters, problem, fold)
            for parameters in candidates
            for fold in range(k)
        )
        self.cv_results_ = _results(candidates, [trials[i : i + k] for i in range(0, len(trials), k)])
        means = self.cv_results_["mean_test_score"]
        if np.isnan(means).all():
            raise ValueError(
                f"every candidate scored NaN with scoring={self.scoring!r}: try a metric that is defined on the "
                "held-out rows of every fold, or fewer folds"
            )
        self.best_index_ = int(np.nanargmax(means))
        self.best_params_, self.best_score_ = candidates[self.best_index_], float(means[self.best_index_])
        self.n_splits_, self.scorer_ = k, problem.scorer
        self.weights_ = problem.weights()
        self.ess_ = effective_sample_size(self.weights_, problem.s)
        self.max_weight_share_ = max_weight_share(self.weights_, problem.s)
        self.adapted_ = problem.X_target is not None
        if self.refit:
            best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
            start = time.perf_counter()
            self.best_estimator_ = fit_all(best, problem)
            self.refit_time_ = time.perf_counter() - start
        return self

    def _best(self) -> Any:
        check_is_fitted(self, "best_index_")
        return self.best_estimator_

    @available_if(_best_has("predict"))
    def predict(self, X: Any) -> np.ndarray:
        """Predictions of the best model."""
        return self._best().predict(X)

    @available_if(_best_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities of the best model."""
        return self._best().predict_proba(X)

    @available_if(_best_has("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities of the best model."""
        return self._best().predict_log_proba(X)

    @available_if(_best_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the best model."""
        return self._best().decision_function(X)

    @available_if(_best_has("transform"))
    def transform(self, X: Any) -> Any:
        """What the best model transforms rows to."""
        return self._best().transform(X)

    @available_if(_best_has("predict_weights"))
    def predict_weights(self, X: Any) -> np.ndarray:
        """The importance that the best model gives to rows."""
        return self._best().predict_weights(X)

    @available_if(_best_has("predict"))
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """`scoring` of the best model on labelled rows, unweighted unless `sample_weight` is given."""
        best = self._best()
        return float(self.scorer_(best, X, y, sample_weight=sample_weight))

    @property
    def classes_(self) -> np.ndarray:
        """Class labels of the best model."""
        return self._best().classes_

    @property
    def n_features_in_(self) -> int:
        """Number of columns that the best model was fitted to."""
        try:
            return self._best().n_features_in_
        except NotFittedError as problem:
            raise AttributeError(f"{type(self).__name__} has no n_features_in_ before fit") from problem


class IWGridSearchCV(_IWSearch):
    """Exhaustive search by importance-weighted cross-validation.

    best = argmax over candidates of mean over folds of sum_i w_i score_i / sum_i w_i,

    the sums over the fold's held-out source rows, w_i the ratio p_target / p_source estimated on the fold's training
    rows of both samples (`iw_cross_validate`, which says what is weighted and what is not: candidates are judged by
    weighted scores, and fitted as they always are). Folds of source and target, and the fold ratios, are the same for
    all candidates. No label of the target is needed.

    Parameters
    ----------
    estimator : learner; what has `X_target` in its `fit` (`ImportanceWeighted`, `OneStep...`) gets the fold's target
        rows, and all of them in the refit, as a `Target`
    param_grid : dict of lists, or a list of such
    ratio, scoring, cv, n_jobs, weighting, random_state : as in `iw_cross_validate`
    refit : fit the best candidate to all rows

    Attributes
    ----------
    best_estimator_, best_params_, best_score_, best_index_, refit_time_, scorer_, n_splits_ : as in scikit-learn
    cv_results_ : as in scikit-learn, scores weighted; with `se_test_score` (standard error of the mean, from the
        folds) and `mean_unweighted_score`
    weights_, ess_, max_weight_share_ : held-out importance of every source row, its effective number of rows, and the
        largest share of one
    adapted_ : False where there was no target

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from covshift.model_selection import IWGridSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(0, 1, (200, 2)), rng.normal(0.5, 1, (200, 2))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=200)
    >>> search = IWGridSearchCV(Ridge(), {"alpha": [0.1, 1e4]}, random_state=0).fit(X, y, X_target=X_target)
    >>> search.best_params_
    {'alpha': 0.1}
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        ratio: Any = None,
        scoring: Any = None,
        cv: Any = 5,
        n_jobs: int | None = None,
        refit: bool = True,
        weighting: str = "self_normalized",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.ratio = ratio
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.refit = refit
        self.weighting = weighting
        self.random_state = random_state

    def _candidates(self) -> Iterable[dict[str, Any]]:
        return ParameterGrid(self.param_grid)


class IWRandomizedSearchCV(_IWSearch):
    """Random search by importance-weighted cross-validation: `IWGridSearchCV` on `n_iter` drawn candidates.

    Parameters
    ----------
    estimator : as in `IWGridSearchCV`
    param_distributions : dict of lists or of distributions with `rvs`, or a list of such
    n_iter : number of candidates
    ratio, scoring, cv, n_jobs, refit, weighting : as in `IWGridSearchCV`
    random_state : folds, candidates, and the draws of a ratio whose own random_state is None

    Attributes
    ----------
    The same as those of `IWGridSearchCV`.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import loguniform
    >>> from sklearn.linear_model import Ridge
    >>> from covshift.model_selection import IWRandomizedSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(0, 1, (200, 2)), rng.normal(0.5, 1, (200, 2))
    >>> search = IWRandomizedSearchCV(Ridge(), {"alpha": loguniform(0.1, 10)}, n_iter=3, random_state=0)
    >>> len(search.fit(X, X[:, 0], X_target=X_target).cv_results_["params"])
    3
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 10,
        ratio: Any = None,
        scoring: Any = None,
        cv: Any = 5,
        n_jobs: int | None = None,
        refit: bool = True,
        weighting: str = "self_normalized",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.ratio = ratio
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.refit = refit
        self.weighting = weighting
        self.random_state = random_state

    def _candidates(self) -> Iterable[dict[str, Any]]:
        return ParameterSampler(
            self.param_distributions, check_count("n_iter", self.n_iter), random_state=self.random_state
        )


def _results(candidates: list[dict[str, Any]], trials: list[list[Trial]]) -> dict[str, Any]:
    """`cv_results_`, one entry a candidate."""
    results: dict[str, Any] = {"params": candidates}
    for name in sorted({name for parameters in candidates for name in parameters}):
        column = np.ma.MaskedArray(np.empty(len(candidates), dtype=object), mask=True)
        for i, parameters in enumerate(candidates):
            if name in parameters:
                column[i] = parameters[name]
        results[f"param_{name}"] = column
    scores = np.array([[trial.score for trial in row] for row in trials])
    for j in range(scores.shape[1]):
        results[f"split{j}_test_score"] = scores[:, j]
    results["mean_test_score"], results["std_test_score"] = scores.mean(axis=1), scores.std(axis=1)
    results["se_test_score"] = np.array([standard_error(row) for row in scores])
    worst_last = np.nan_to_num(-results["mean_test_score"], nan=np.inf)
    results["rank_test_score"] = 1 + (worst_last[:, None] > worst_last[None, :]).sum(axis=1)
    results["mean_unweighted_score"] = np.array([np.mean([trial.unweighted for trial in row]) for row in trials])
    for name in ("fit_time", "score_time"):
        times = np.array([[getattr(trial, name) for trial in row] for row in trials])
        results[f"mean_{name}"], results[f"std_{name}"] = times.mean(axis=1), times.std(axis=1)
    return results
