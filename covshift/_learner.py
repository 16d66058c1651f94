"""Any scikit-learn learner as f: does it take weights, and how do they reach it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

__all__ = ["check_takes_weights", "fit_weighted", "takes_weights"]

# Meta-estimators whose `fit(X, y, **params)` hands weights to what they hold.
_INNER = ("estimator", "regressor", "classifier", "final_estimator", "base_estimator")


def takes_weights(estimator: Any) -> bool:
    """Whether `fit` of a learner, or of what a pipeline or a meta-estimator ends in, uses sample_weight."""
    if isinstance(estimator, Pipeline):
        return takes_weights(estimator.steps[-1][1])
    if not hasattr(estimator, "fit"):
        return False
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


def fit_weighted(estimator: Any, X: Any, y: np.ndarray, w: np.ndarray, frequencies: np.ndarray | None = None) -> Any:
    """Fit a learner with weights and return it.

    The weights go to the last step of a pipeline. The steps before it see rows as they are, or with `frequencies`
    where they take a sample_weight: importance is f's matter, but a row of frequency k is k copies for a scaler too.
    Steps are fitted here and not by `Pipeline.fit`, so metadata routing may be switched on or off.
    """
    if not isinstance(estimator, Pipeline):
        return estimator.fit(X, y, sample_weight=w)
    *head, (name, last) = estimator.steps
    if head and frequencies is None:
        front = Pipeline(head, memory=estimator.memory)
        X = front.fit_transform(X, y)
        head = front.steps
    elif head and frequencies is not None:
        head, X = _fit_steps(head, X, y, frequencies)
    return Pipeline([*head, (name, fit_weighted(last, X, y, w, frequencies))], verbose=estimator.verbose)


def _fit_steps(
    steps: list[tuple[str, Any]], X: Any, y: np.ndarray, frequencies: np.ndarray
) -> tuple[list[tuple[str, Any]], Any]:
    fitted = []
    for name, step in steps:
        if step is not None and step != "passthrough":
            step = clone(step)
            if not takes_weights(step):
                X = step.fit_transform(X, y)
            elif isinstance(step, Pipeline):
                step = fit_weighted(step, X, y, frequencies, frequencies)
                X = step.transform(X)
            else:
                X = step.fit(X, y, sample_weight=frequencies).transform(X)
        fitted.append((name, step))
    return fitted, X
