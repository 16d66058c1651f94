"""Tables with numbers, categories and gaps as float arrays for kernel models."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covshift._checks import check_count
from covshift.exceptions import MissingExtraError

__all__ = ["encode_kernel_inputs", "require_pandas"]


def require_pandas() -> ModuleType:
    """pandas, or one sentence on how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError(
            "the panel's tables are pandas frames, and pandas is not installed: pip install 'covshift[panel]'"
        ) from error
    return pandas


def encode_kernel_inputs(
    X: Any, X_target: Any, X_eval: Any, *, min_count: int = 5
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Numbers: median imputation, then z-score. Categories: a 0/1 column for each that is seen often enough.

    Medians, means, standard deviations and counts are those of the pooled rows of `X` and `X_target`: both are
    inputs that the learner has. Rows of `X_eval` and labels take no part. A number that is constant on the pooled
    rows (or missing in all of them) carries nothing and is left out. A missing or rare category is a row of
    zeros. 0/1 columns are not scaled.

    Parameters
    ----------
    X, X_target, X_eval : pandas frames with the same columns
    min_count : int
        Rows in which a category must be seen, 5.

    Returns
    -------
    three float64 arrays with the same columns: first the numbers, then the categories, in the frame's order.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"size": [1.0, 3.0, None, 2.0], "colour": ["red", "blue", "red", None]})
    >>> encode_kernel_inputs(X, X, X[:3], min_count=4)[2].round(3)
    array([[-1.414,  1.   ],
           [ 1.414,  0.   ],
           [ 0.   ,  1.   ]])
    """
    pd = require_pandas()
    min_count = check_count("min_count", min_count)
    for name, frame in (("X_target", X_target), ("X_eval", X_eval)):
        if list(frame.columns) != list(X.columns):
            differing = sorted(map(str, set(frame.columns) ^ set(X.columns)))
            raise ValueError(f"{name} needs the columns of X in the same order; differing: {differing}")
    pooled, parts = pd.concat([X, X_target]), (X, X_target, X_eval)
    numeric = [name for name in X if _is_number(pd, X[name])]
    numbers = _numbers(pooled[numeric], [part[numeric] for part in parts])
    blocks = [numbers, *(_one_hot(pooled[c], [p[c] for p in parts], min_count) for c in X if c not in numeric)]
    encoded = [np.hstack(columns) for columns in zip(*blocks, strict=True)]
    return encoded[0], encoded[1], encoded[2]


def _is_number(pd: ModuleType, column: Any) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _numbers(pooled: Any, parts: list[Any]) -> list[NDArray[np.float64]]:
    median = pooled.median().to_numpy(dtype=np.float64)
    filled = pooled.to_numpy(dtype=np.float64)
    filled = np.where(np.isnan(filled), median, filled)
    kept = ~np.isnan(median) & (filled.max(axis=0, initial=-np.inf) > filled.min(axis=0, initial=np.inf))
    mean, sd = filled[:, kept].mean(axis=0), filled[:, kept].std(axis=0)
    arrays = [part.to_numpy(dtype=np.float64) for part in parts]
    return [(np.where(np.isnan(a), median, a)[:, kept] - mean) / sd for a in arrays]


def _one_hot(pooled: Any, parts: list[Any], min_count: int) -> list[NDArray[np.float64]]:
    counts = pooled.astype(object).value_counts()  # missing values are not counted
    frequent = sorted((c for c, count in counts.items() if count >= min_count), key=str)
    return [
        np.column_stack([(part.astype(object) == c).to_numpy(dtype=np.float64) for c in frequent])
        if frequent
        else np.empty((len(part), 0))
        for part in parts
    ]
