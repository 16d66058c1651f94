"""Any scikit-learn learner as f: does it take weights, and how do they reach it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

__all__ = ["check_takes_weights", "fit_weighted"]

# Meta-estimators whose `fit(X, y, **params)` hands weights to what they hold.
_INNER = ("estimator", "regressor", "classifier", "final_estimator", "base_estimator")


def takes_weights(estimator: Any) -> bool:
    """Whether `fit` of a learner, or of what a pipeline or a meta-estimator ends in, uses sample_weight."""
    if isinstance(estimator, Pipeline):
        return takes_weights(estimator.steps[-1][1])
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    kinds = {p.kind for p in inspect.signature(estimator.fit).parameters.values()}
    inner = [getattr(estimator, name) for name in _INNER if hasattr(estimator, name)]
    return inspect.Parameter.VAR_KEYWORD in kinds and any(takes_weights(held) for held in inner if held is not None)


def check_takes_weights(owner: Any, estimator: Any) -> None:
    """Refuse a learner that cannot be weighted, before anything is computed."""
    for method in ("fit", "predict"):
        if not hasattr(estimator, method):
            raise TypeError(f"estimator={estimator!r} of {type(owner).__name__} has no {method}: give a learner")
    if not takes_weights(estimator):
        raise ValueError(
            f"estimator={estimator!r} cannot be importance-weighted: its fit takes no sample_weight. Use a learner "
            "whose fit does (Ridge, LogisticRegression, gradient boosting, forests, SVMs, ...)"
        )


def fit_weighted(estimator: Any, X: Any, y: np.ndarray, w: np.ndarray) -> Any:
    """Fit a learner with weights and return it.

    The steps of a pipeline before the last are fitted without weights, and the weights go to the last: the same with
    metadata routing switched on and off, which is why they are not handed to `Pipeline.fit`.
    """
    if not isinstance(estimator, Pipeline):
        return estimator.fit(X, y, sample_weight=w)
    name, last = estimator.steps[-1]
    steps = []
    if len(estimator.steps) > 1:
        head = Pipeline(estimator.steps[:-1], memory=estimator.memory)
        X = head.fit_transform(X, y)
        steps = head.steps
    return Pipeline([*steps, (name, fit_weighted(last, X, y, w))], verbose=estimator.verbose)
