"""The paper's toy regression: a sinc, seen in one place and asked for in another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from covshift._checks import as_generator, check_count, check_number

__all__ = ["make_toy_regression", "toy_ratio"]

SOURCE_MEAN, SOURCE_SD = 1.0, 0.5
TARGET_MEAN, TARGET_SD = 2.0, 0.25


def toy_ratio(X: ArrayLike) -> NDArray[np.float64]:
    """r(x) = N(x; 2, 0.25^2) / N(x; 1, 0.5^2), one number a row."""
    x = np.asarray(X, dtype=np.float64).reshape(-1)
    log_target = -0.5 * ((x - TARGET_MEAN) / TARGET_SD) ** 2 - np.log(TARGET_SD)
    log_source = -0.5 * ((x - SOURCE_MEAN) / SOURCE_SD) ** 2 - np.log(SOURCE_SD)
    return np.exp(log_target - log_source)


def make_toy_regression(
    n_source: int = 150,
    n_target: int = 150,
    n_eval: int = 10_000,
    *,
    noise: float = 0.1,
    random_state: Any = None,
) -> Bunch:
    """y = sinc(x) + noise e with sinc(x) = sin(pi x) / (pi x), e ~ N(0, 1); x ~ N(1, 0.5^2), target N(2, 0.25^2).

    Section 4.1 of the paper (n_source = n_target = 150, noise 0.1). The conditional law of y is the same in both
    samples; only x moves, to where the source has few rows.

    Parameters
    ----------
    n_source, n_target, n_eval : int
        Labelled source rows, unlabelled target rows, labelled target rows for evaluation only.
    noise : float >= 0
        Standard deviation of the noise.
    random_state : int, Generator, RandomState or None

    Returns
    -------
    Bunch
        X (n_source, 1), y; X_target (n_target, 1); X_eval (n_eval, 1), y_eval; true_ratio: a function from rows
        to the ratio of the target's and the source's density.

    Examples
    --------
    >>> toy = make_toy_regression(random_state=0)
    >>> toy.X.shape, toy.X_target.shape, toy.X_eval.shape
    ((150, 1), (150, 1), (10000, 1))
    >>> toy.true_ratio([[1.5], [2.0]]).round(3)
    array([ 0.446, 14.778])
    """
    n_source, n_target = check_count("n_source", n_source), check_count("n_target", n_target)
    n_eval = check_count("n_eval", n_eval, low=0)
    noise = check_number("noise", noise, 0.0, np.finfo(np.float64).max)
    rng = as_generator(random_state)
    X = rng.normal(SOURCE_MEAN, SOURCE_SD, (n_source, 1))
    X_target = rng.normal(TARGET_MEAN, TARGET_SD, (n_target, 1))
    X_eval = rng.normal(TARGET_MEAN, TARGET_SD, (n_eval, 1))
    y = np.sinc(X[:, 0]) + noise * rng.standard_normal(n_source)  # NumPy's sinc is sin(pi x) / (pi x)
    y_eval = np.sinc(X_eval[:, 0]) + noise * rng.standard_normal(n_eval)
    return Bunch(X=X, y=y, X_target=X_target, X_eval=X_eval, y_eval=y_eval, true_ratio=toy_ratio)
