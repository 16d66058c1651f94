"""Any scikit-learn learner as f: does it take weights, and how do they reach it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

__all__ = ["check_takes_weights", "fit_weighted", "seeded_clone", "takes_weights"]

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
    held = _held(estimator)
    return inspect.Parameter.VAR_KEYWORD in kinds and held is not None and takes_weights(held)


def _held(estimator: Any) -> Any:
    """What a meta-estimator holds, or None."""
    return next((getattr(estimator, name) for name in _INNER if getattr(estimator, name, None) is not None), None)


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


def seeded_clone(estimator: Any, seed: int) -> Any:
    """A clone that draws from `seed` where its owner left `random_state` open."""
    copy = clone(estimator)
    if copy.get_params(deep=False).get("random_state", seed) is None:
        copy.set_params(random_state=seed)
    return copy


def fit_weighted(estimator: Any, X: Any, y: np.ndarray, w: np.ndarray, frequencies: np.ndarray | None = None) -> Any:
    """Fit a learner with weights and return it.

    The weights go to the last step of a pipeline. The steps before it see rows as they are, or with `frequencies`
    where they take a sample_weight: importance is f's matter, but a row of frequency k is k copies for a scaler too.
    Steps are fitted here and not by `Pipeline.fit`, so metadata routing may be switched on or off.
    """
    if not isinstance(estimator, Pipeline):
        return _fit_holder(estimator, X, y, w)
    *head, (name, last) = estimator.steps
    if head and frequencies is None:
        front = Pipeline(head, memory=estimator.memory)
        X = front.fit_transform(X, y)
        head = front.steps
    elif head and frequencies is not None:
        head, X = _fit_steps(head, X, y, frequencies)
    return Pipeline([*head, (name, fit_weighted(last, X, y, w, frequencies))], verbose=estimator.verbose)


def _fit_holder(estimator: Any, X: Any, y: np.ndarray, w: np.ndarray) -> Any:
    """Fit a learner, or a meta-estimator (a search, a transformed target) that hands keywords to what it holds."""
    held = _held(estimator)
    if has_fit_parameter(estimator, "sample_weight") or held is None:
        return estimator.fit(X, y, sample_weight=w)
    if get_config()["enable_metadata_routing"]:
        _request_weights(held)
        return estimator.fit(X, y, sample_weight=w)
    return estimator.fit(X, y, **{_keyword(held): w})


def _keyword(held: Any) -> str:
    """The name by which weights reach a learner, through pipelines, where metadata routing is off."""
    if isinstance(held, Pipeline):
        name, last = held.steps[-1]
        return f"{name}__{_keyword(last)}"
    return "sample_weight"


def _request_weights(held: Any, wanted: bool = True) -> None:
    """Where metadata routing is on: the last learner held wants weights in `fit`, unless its owner decided otherwise.

    The steps before it do not. Its score gets the weights too, because a pipeline inside a search fails without.
    """
    if isinstance(held, Pipeline):
        for k, (_, step) in enumerate(held.steps):
            _request_weights(step, wanted and k == len(held.steps) - 1)
    elif hasattr(held, "fit") and has_fit_parameter(held, "sample_weight"):
        asked = held.get_metadata_routing()
        if asked.fit.requests.get("sample_weight") is None:
            held.set_fit_request(sample_weight=wanted)
        if hasattr(held, "set_score_request") and asked.score.requests.get("sample_weight") is None:
            held.set_score_request(sample_weight=wanted)
    elif _held(held) is not None:
        _request_weights(_held(held), wanted)


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
