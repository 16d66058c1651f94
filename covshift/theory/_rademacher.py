"""Empirical Rademacher complexities of the norm-bounded linear-in-parameter classes in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covshift._checks import as_generator, check_choice, check_count, check_number

__all__ = ["MODELS", "rademacher_complexity"]

# A block of sign vectors is a (block, n) matrix of floats; this many of them at once fit a cache.
_SIGNS_AT_ONCE = 1 << 21


def _norm(V: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("ij,ij->i", V, V))


def _signed(V: np.ndarray, B: float, mean_sign: np.ndarray) -> np.ndarray:
    return B * _norm(V)


def _nonnegative(V: np.ndarray, B: float, mean_sign: np.ndarray) -> np.ndarray:
    return B * _norm(np.maximum(V, 0.0))


def _nonnegative_pm(V: np.ndarray, B: float, mean_sign: np.ndarray) -> np.ndarray:
    return B * np.maximum(_norm(np.maximum(V, 0.0)), _norm(np.minimum(V, 0.0)))


def _one_plus_pm(V: np.ndarray, B: float, mean_sign: np.ndarray) -> np.ndarray:
    return 2.0 * B * _norm(V) + np.abs(mean_sign)


# model -> (sup of a draw of the signs, its closed-form bound from root = B sqrt(mean ||phi||^2 / n))
MODELS: dict[str, tuple[Callable[..., np.ndarray], Callable[[float, int], float]]] = {
    "signed": (_signed, lambda root, n: root),
    "nonnegative": (_nonnegative, lambda root, n: root / np.sqrt(2.0)),
    "nonnegative_pm": (_nonnegative_pm, lambda root, n: root),
    "one_plus": (_signed, lambda root, n: root),
    "one_plus_pm": (_one_plus_pm, lambda root, n: 2.0 * root + 1.0 / np.sqrt(n)),
}


def rademacher_complexity(
    Phi: np.ndarray,
    norm_bound: float,
    method: str = "bound",
    *,
    model: str = "signed",
    draws: int = 2000,
    random_state: Any = None,
) -> float:
    """R(H) = E_sigma sup_{h in H} (1/n) sum_i sigma_i h(x_i), given the rows; v = (1/n) sum_i sigma_i phi_i.

    ================= ================================ ========================= ==================================
    model             class, always with |beta| <= B   method="monte_carlo"      method="bound"
    ================= ================================ ========================= ==================================
    "signed"          beta'phi (the paper's F)         B E||v||                  root = B sqrt(mean ||phi||^2 / n)
    "nonnegative"     beta'phi, beta >= 0 (G+)         B E||v_+||                root / sqrt 2
    "nonnegative_pm"  the same and its negatives (G)   B E max(||v_+||, ||v_-||) root
    "one_plus"        max(1 + beta'phi, 0)             B E||v||, an upper bound  root
    "one_plus_pm"     the same and its negatives       2 B E||v|| + E|mean s|    2 root + 1 / sqrt n
    ================= ================================ ========================= ==================================

    The Lemma needs G = G+ and -G+ ("..._pm") on the source; G+ alone would give an invalid bound there. The rows of
    `one_plus` are upper bounds by contraction. docs/theory.md has the proofs.

    Parameters
    ----------
    Phi : array (n, b)
        Features of the rows.
    norm_bound : float
        B, the radius of the ball of coefficients.
    method : "bound" or "monte_carlo"
        Closed form (Jensen), or the mean over `draws` sign vectors from `random_state`.

    Examples
    --------
    >>> import numpy as np
    >>> rademacher_complexity(np.ones((100, 1)), norm_bound=2.0)
    0.2
    """
    check_choice("method", method, ("bound", "monte_carlo"))
    check_choice("model", model, MODELS)
    B = check_number("norm_bound", norm_bound, 0.0, np.finfo(np.float64).max)
    Phi = np.asarray(Phi, dtype=np.float64)
    if Phi.ndim != 2 or Phi.shape[0] == 0:
        raise ValueError(f"Phi has shape {Phi.shape}: expected (n, b) with n >= 1, one row of features a sample row")
    n = Phi.shape[0]
    supremum, closed_form = MODELS[model]
    if method == "bound":
        return float(closed_form(B * np.sqrt(np.einsum("ij,ij->", Phi, Phi)) / n, n))
    draws = check_count("draws", draws)
    rng = as_generator(random_state)
    block = max(1, min(draws, _SIGNS_AT_ONCE // n))
    total = 0.0
    for start in range(0, draws, block):
        signs = 2.0 * rng.integers(0, 2, size=(min(block, draws - start), n)) - 1.0
        total += float(supremum(signs @ Phi / n, B, signs.mean(axis=1)).sum())
    return total / draws
