"""The validation door: X, y, X_target, weights and scalars. Nothing below it checks again."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from covshift.exceptions import NoTargetWarning

__all__ = [
    "Target",
    "as_generator",
    "check_choice",
    "check_grid",
    "check_number",
    "check_target",
    "check_weights",
    "no_target",
    "unwrap_target",
]


class Target:
    """An opaque holder of unlabelled target rows, accepted wherever `X_target` is.

    scikit-learn's searches cut every array argument of `fit` whose length equals `len(X)` into folds, silently
    (scikit-learn issue 30739); 150 source and 150 target rows are enough. A `Target` has no length, so all of its
    rows reach every fit. `clone` does not copy what it holds.

    Examples
    --------
    >>> import numpy as np
    >>> Target(np.zeros((3, 2)))
    Target(3 rows)
    """

    __slots__ = ("X",)

    def __init__(self, X: Any) -> None:
        if isinstance(X, Target):
            X = X.X
        self.X: Any = X

    def __sklearn_clone__(self) -> Target:
        return self

    def __repr__(self) -> str:
        rows = self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)
        return f"Target({rows} rows)"


def unwrap_target(X_target: Any) -> Any:
    """The rows that `X_target` stands for, or None."""
    return X_target.X if isinstance(X_target, Target) else X_target


def no_target(estimator: Any) -> None:
    """Say once a call that there is no target sample."""
    warnings.warn(
        f"{type(estimator).__name__}.fit was called without X_target: all weights are one. "
        "Pass the unlabelled target rows as fit(X, y, X_target=...).",
        NoTargetWarning,
        stacklevel=3,
    )


def check_target(estimator: Any, X_target: Any, **check_params: Any) -> np.ndarray | None:
    """Target rows as a clean array with the source's columns, or None; call it after `validate_data(X)`.

    Frames are compared by column name and order with the source's, as scikit-learn compares them in `predict`.
    """
    X_target = unwrap_target(X_target)
    if X_target is None:
        return None
    if np.ndim(X_target) == 1 and not hasattr(X_target, "columns"):
        raise ValueError(
            f"X_target must be two-dimensional (rows, columns), got shape {np.shape(X_target)}. "
            "Labels of the target are never needed; for one column use X_target.reshape(-1, 1)."
        )
    name = type(estimator).__name__
    try:
        return validate_data(estimator, X_target, reset=False, **check_params)
    except (TypeError, ValueError) as problem:
        text = str(problem).replace("Input X ", "X_target ").replace("X has", "X_target has")
        text = text if "X_target" in text else f"X_target: {text}"
        raise type(problem)(
            f"{text}\n(X_target of {name}: the target needs the source's columns, order and kinds)"
        ) from problem


# What scikit-learn's own message does not say: which argument it is about, or what to do.
_WAYS_OUT = {
    "could not convert string": "X holds text: encode it as numbers first, for example by OneHotEncoder",
    "sample(s)": "X: give more labelled source rows",
    "feature(s)": "X: give at least one column",
    "1D array": "X must be two-dimensional (rows, columns)",
    "Input X contains": "X: impute missing values or drop those rows (learners that take NaN can be f of OneStep)",
    "Input y contains": "y: every source row needs a finite label; drop the rows without one",
}


def check_source(estimator: Any, X: Any, y: Any, **check_params: Any) -> tuple[np.ndarray, np.ndarray]:
    """Source rows and labels as clean arrays; the estimator's columns are those of X."""
    try:
        return validate_data(estimator, X, y, **check_params)
    except (TypeError, ValueError) as problem:
        text = str(problem)
        advice = [way_out for part, way_out in _WAYS_OUT.items() if part in text]
        if not advice:
            raise
        raise type(problem)("\n".join([text, *advice])) from problem


def check_weights(sample_weight: Any, X: np.ndarray, name: str = "sample_weight") -> np.ndarray | None:
    """Frequencies: finite, non-negative, not all zero; None where none were given."""
    if sample_weight is None:
        return None
    given = np.asarray(sample_weight)  # before scikit-learn, whose own message does not name the argument
    if given.size and given.dtype.kind in "biuf" and not given.any():
        raise ValueError(f"{name} is zero for every row, so there is nothing to fit: give at least one row weight")
    s = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=False)
    if s.min(initial=0.0) < 0:
        row = int(np.argmin(s))
        raise ValueError(f"{name}[{row}]={s[row]:g}: Negative values are not allowed, weights are frequencies (>= 0)")
    return s


def check_number(
    name: str, value: Any, low: float = -np.inf, high: float = np.inf, *, open_low: bool = False
) -> float:
    """A real number in [low, high] (or (low, high]); the error names argument, value and range."""
    bracket = "(" if open_low else "["
    allowed = f"a number in {bracket}{low:g}, {high:g}]"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r}: expected {allowed}")
    number = float(value)
    if not (low <= number <= high) or (open_low and number == low):
        raise ValueError(f"{name}={value!r}: expected {allowed}")
    return number


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}={value!r}: expected True or False")
    return bool(value)


def check_count(name: str, value: Any, low: int = 1) -> int:
    """An integer >= low."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}={value!r}: expected an integer >= {low}")
    if value < low:
        raise ValueError(f"{name}={value!r}: expected an integer >= {low}")
    return int(value)


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """One of a few words; the error lists them and names the nearest."""
    options = list(choices)
    if isinstance(value, str) and value in options:
        return value
    near = difflib.get_close_matches(str(value), options, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, options))}{hint}")


def check_grid(
    name: str,
    value: Any,
    *,
    words: Sequence[str] = (),
    low: float = 0.0,
    open_low: bool = True,
    allow_inf: bool = False,
) -> tuple[float, ...] | str:
    """A hyperparameter: one of `words`, a number, or a sequence of numbers; numbers come back as a tuple."""
    if isinstance(value, str):
        return check_choice(name, value, words)
    high = np.inf if allow_inf else np.finfo(np.float64).max
    if isinstance(value, Real):
        return (check_number(name, value, low, high, open_low=open_low),)
    try:
        values = list(value)
    except TypeError:
        kinds = " or ".join(["a number", "a sequence of numbers", *map(repr, words)])
        raise TypeError(f"{name}={value!r}: expected {kinds}") from None
    if not values:
        raise ValueError(f"{name} is an empty sequence: give at least one number to try")
    return tuple(check_number(f"{name}[{i}]", v, low, high, open_low=open_low) for i, v in enumerate(values))


def as_generator(random_state: Any) -> np.random.Generator:
    """A Generator of its own from scikit-learn's `random_state`; the global generator is read only for None."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, int | np.integer):
        return np.random.default_rng(int(random_state))
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def refuse_matrix_y(y: Any) -> None:
    """Ratio estimators take no labels; a two-dimensional `y` is almost surely the target in the wrong place."""
    shape = () if y is None else np.asarray(y).shape
    if len(shape) == 2:
        raise ValueError(f"y has shape {shape}, and a ratio estimator needs no labels: did you mean X_target=?")


def refuse_target_as_labels(y: Any) -> None:
    """One label a row; a matrix in the place of y is almost surely the target."""
    shape = _shape(y)
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y has shape {shape}, one label a row was expected. Target rows go in by name, "
            "fit(X, y, X_target=...); several outputs need one model each."
        )


def _shape(values: Any) -> tuple[int, ...]:
    """Shape without asking NumPy of what is an array of its own kind."""
    if values is None:
        return ()
    return tuple(values.shape) if hasattr(values, "shape") else np.asarray(values).shape
