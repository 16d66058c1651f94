"""A shift made by hand: the paper's worst projection."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Bunch, check_X_y

from covshift._checks import as_generator, check_count, check_number

__all__ = ["make_biased_split"]


@dataclass(frozen=True)
class _Projection:
    """x -> v(x) = strength w'z / sd(w'z), z the z-scored x; mean, scale and sd are those of all rows."""

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    w: NDArray[np.float64]  # on z-scored inputs, of length one
    factor: float  # strength / sd(w'z)

    def __call__(self, X: ArrayLike) -> NDArray[np.float64]:
        z = (np.asarray(X, dtype=np.float64) - self.mean) / self.scale
        return self.factor * (z @ self.w)


def _ratio(projection: _Projection, odds: float, X: ArrayLike) -> NDArray[np.float64]:
    # p_target / p_source = [(1 - pi) / P(target)] / [pi / P(source)], and (1 - pi) / pi = exp(-v)
    return odds * np.exp(-projection(X))


def make_biased_split(
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_directions: int = 20,
    strength: float = 16.0,
    classifier: Any = None,
    direction: ArrayLike | None = None,
    random_state: Any = None,
) -> Bunch:
    """P(source | x) = 1 / (1 + exp(-v)), v = strength w'z / sd(w'z), with the w on which a classifier does worst.

    Section 4.2 of the paper. Inputs are z-scored (z), so the mean of w'z is zero and about half of the rows
    fall on each side. For each of `n_directions` random w every row is assigned once; a classifier is trained
    on the source part, and the w and assignment with the largest error rate on the target part are kept. The
    assignment looks at x alone, so p(y | x) is the same on both sides. The labels of the target part serve to
    choose the split and must not be seen by what is then tested on it.

    Parameters
    ----------
    X : array (n, d)
    y : array (n,)
        Class labels.
    n_directions : int
        How many w are tried; the paper does not say. Each makes the split harder: the default classifier's error
        on the target part of LIBSVM's australian is 0.14 with one, 0.21 with 20 and 0.38 with 200 (mean of five
        seeds; heart 0.18, 0.24, 0.34). Default 20: hard, but a classifier still learns something on every set.
    strength : float > 0
        The paper's 16.
    classifier : scikit-learn classifier or None
        The paper does not name it. None: logistic regression on the z-scored inputs, because it has no bandwidth
        to choose and is no method of the comparison.
    direction : array (d,) or None
        A w on the z-scored inputs that was chosen before: it is used as it is, nothing is searched, and only the
        assignment is drawn. None: w ~ N(0, I), normalised, which is the uniform law of directions.
    random_state : int, Generator, RandomState or None

    Returns
    -------
    Bunch
        X, y, X_target, y_target: rows as they were given, not z-scored; source_index, target_index: their row
        numbers; direction; target_error: the error rate of the classifier (None where nothing was searched);
        source_probability: P(source | x) of all n rows; true_ratio: a function from rows to p_target / p_source.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> split = make_biased_split(X, X[:, 0] > 0, random_state=0)
    >>> len(split.X) + len(split.X_target)
    200
    """
    rows, labels = check_X_y(X, y, dtype=[np.float64, np.float32])
    n_directions = check_count("n_directions", n_directions)
    strength = check_number("strength", strength, 0.0, np.finfo(np.float64).max, open_low=True)
    rng = as_generator(random_state)
    mean, scale = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    scale = np.where(scale > 0, scale, 1.0)
    Z = (rows - mean) / scale
    if direction is not None:
        w, is_source, error = _given_direction(direction, Z), None, None
    else:
        w, is_source, error = _worst_direction(Z, labels, n_directions, strength, classifier, rng)
    projection = _Projection(mean, scale, w, strength / float(np.std(Z @ w)))
    pi = expit(projection(rows))
    if is_source is None:
        is_source = rng.random(len(rows)) < pi
    source, target = np.flatnonzero(is_source), np.flatnonzero(~is_source)
    return Bunch(
        X=rows[source],
        y=labels[source],
        X_target=rows[target],
        y_target=labels[target],
        source_index=source,
        target_index=target,
        direction=w,
        target_error=error,
        source_probability=pi,
        true_ratio=partial(_ratio, projection, float(pi.mean() / (1 - pi).mean())),
    )


def _unit(w: NDArray[np.float64]) -> NDArray[np.float64]:
    return w / np.linalg.norm(w)


def _given_direction(direction: ArrayLike, Z: NDArray[np.float64]) -> NDArray[np.float64]:
    w = np.asarray(direction, dtype=np.float64)
    if w.shape != (Z.shape[1],) or not np.isfinite(w).all():
        raise ValueError(f"direction has shape {w.shape}: expected {Z.shape[1]} finite numbers, one a column")
    if not np.std(Z @ w) > 0:
        raise ValueError("direction gives every row the same projection: take one along which the rows differ")
    return _unit(w)


def _worst_direction(
    Z: NDArray[np.float64],
    y: NDArray[Any],
    n_directions: int,
    strength: float,
    classifier: Any,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.bool_], float]:
    classifier = LogisticRegression(max_iter=1000) if classifier is None else classifier
    worst: tuple[NDArray[np.float64], NDArray[np.bool_], float] | None = None
    if not Z.any():
        raise ValueError("every column of X is constant: there is no direction along which rows can be split")
    for _ in range(n_directions):
        w = _unit(rng.standard_normal((Z.shape[1],)))
        s = Z @ w
        is_source = rng.random(len(Z)) < expit(strength * s / np.std(s))
        if is_source.all() or len(np.unique(y[is_source])) < 2:
            continue  # no classifier can be trained, or none judged
        model = clone(classifier).fit(Z[is_source], y[is_source])
        error = float(np.mean(model.predict(Z[~is_source]) != y[~is_source]))
        if worst is None or error > worst[2]:
            worst = w, is_source, error
    if worst is None:
        raise ValueError(
            f"none of n_directions={n_directions} directions left two classes in the source part: "
            f"lower strength={strength:g}, or give more rows of the rare class"
        )
    return worst
