"""The door of `OneStep`: rows reach f as they came, and g as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from covshift._checks import check_target


class RatioInputs:
    """What g sees of the rows: a user's transformer, or the numeric columns of a frame or array.

    Frames keep their form for f. The transformer is fitted to source rows; z-scoring on pooled rows comes after it.
    """

    def __init__(self, owner: Any, transformer: Any) -> None:
        self.owner, self.transformer = owner, transformer

    def fit(self, X: Any, y: Any, X_target: Any) -> tuple[Any, np.ndarray, Any, np.ndarray, np.ndarray | None]:
        """(X, y, X_target as f sees them, G, G_target as g sees them)."""
        owner = self.owner
        if y is None:
            raise ValueError(
                f"This {type(owner).__name__} estimator requires y to be passed, but the target y is None."
            )
        if _is_frame(X):
            validate_data(owner, X, reset=True, skip_check_array=True)
        else:
            X = validate_data(owner, X, reset=True, accept_sparse="csr", **self._array_rules())
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError("Input y contains NaN or infinity: drop those rows, every source row needs a label.")
        if len(y) < 2:
            raise ValueError(f"X has {len(y)} sample(s) while a minimum of 2 is required by {type(owner).__name__}.")
        if self.transformer is not None:
            self.transformer = clone(self.transformer).fit(X)
        G = self._numbers(X, "X")
        if X_target is None:
            return X, y, None, G, None
        rules = {"accept_sparse": "csr", **self._array_rules()}
        X_target = check_target(owner, X_target, **({"skip_check_array": True} if _is_frame(X_target) else rules))
        return X, y, X_target, G, self._numbers(X_target, "X_target")

    def for_f(self, X: Any) -> Any:
        """New rows as f sees them."""
        if _is_frame(X):
            validate_data(self.owner, X, reset=False, skip_check_array=True)
            return X
        return validate_data(self.owner, X, reset=False, accept_sparse="csr", **self._array_rules())

    def for_g(self, X: Any) -> np.ndarray:
        """What g sees of new rows."""
        return self._numbers(self.for_f(X), "X")

    def _array_rules(self) -> dict[str, Any]:
        """With a transformer of their own users may hand over anything two-dimensional."""
        if self.transformer is None:
            return {"dtype": [np.float64, np.float32]}
        return {"dtype": None, "ensure_all_finite": False}

    def _numbers(self, X: Any, name: str) -> np.ndarray:
        if self.transformer is not None:
            X = self.transformer.transform(X)
            if sparse.issparse(X):
                X = sparse.csr_array(X).toarray()
        elif _is_frame(X):
            X = _numeric_columns(X, type(self.owner).__name__)
        elif sparse.issparse(X):
            raise TypeError(
                f"{name} is sparse, and g takes dense numbers: give transformer_g=, for example TruncatedSVD(20)"
            )
        return check_array(X, dtype=[np.float64, np.float32], input_name=name)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "shape")


def _numeric_columns(frame: Any, owner: str) -> np.ndarray:
    """The frame as floats; columns that are no numbers are refused by name."""
    other = [str(name) for name in frame.columns if not _is_numeric(frame[name])]
    if other:
        raise ValueError(
            f"{owner}: g takes numbers, and these columns are none: {', '.join(other)}. Give transformer_g=, for "
            "example make_column_transformer((OneHotEncoder(handle_unknown='ignore', sparse_output=False), [...]), "
            "remainder='passthrough'), or a selector of the numeric columns"
        )
    return np.asarray(frame, dtype=np.float64)


def _is_numeric(column: Any) -> bool:
    dtype = column.dtype
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric())
    return getattr(dtype, "kind", "O") in "fiub"
