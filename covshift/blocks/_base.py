"""`sum_over_blocks`: add up what a function returns for consecutive blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Floats of intermediate results that one block may need: 2 MiB in double precision, about a core's own cache.
_CACHE_FLOATS = 1 << 18
_MIN_ROWS = 64


def sum_over_blocks(function: Callable[..., Any], *arrays: Any, floats_per_row: int = 64) -> Any:
    """sum_k function(a[block k] for a in arrays), over consecutive blocks of rows that fit the cache.

    `function` maps blocks of rows (views, never copies) to an array, a number or a tuple of them, additive over
    rows. An entry of `arrays` that is None is handed on as None. Only b x b matrices and b-vectors ever leave a
    block, so files, clusters and accelerators can take this function's place without touching an estimator.

    Parameters
    ----------
    function : callable of len(arrays) blocks
    arrays : arrays with equal first dimension, or None
    floats_per_row : floats of intermediate results per row; decides the block's size

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> bool(np.allclose(sum_over_blocks(lambda x: x.T @ x, X), X.T @ X))
    True
    """
    n = next(len(a) for a in arrays if a is not None)
    step = max(_MIN_ROWS, _CACHE_FLOATS // max(1, floats_per_row))
    total: Any = None
    for start in range(0, max(n, 1), step):
        rows = slice(start, min(start + step, n))
        part = function(*(None if a is None else a[rows] for a in arrays))
        total = part if total is None else _add(total, part)
    return total


def _add(total: Any, part: Any) -> Any:
    if isinstance(total, tuple):
        return tuple(_add(a, b) for a, b in zip(total, part, strict=True))
    if isinstance(total, np.ndarray) and total.ndim > 0:
        total += part
        return total
    return total + part


def map_blocks(function: Callable[[Any], np.ndarray], X: Any, floats_per_row: int = 64) -> np.ndarray:
    """function(X) for a function that acts on rows one by one, with intermediates of one block at a time."""
    n, step = len(X), max(_MIN_ROWS, _CACHE_FLOATS // max(1, floats_per_row))
    first = function(X[:step])
    if n <= step:
        return first
    out = np.empty((n, *first.shape[1:]), dtype=first.dtype)
    out[:step] = first
    for start in range(step, n, step):
        out[start : start + step] = function(X[start : start + step])
    return out
