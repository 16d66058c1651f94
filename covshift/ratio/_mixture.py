"""Maximum likelihood of mixture proportions: the convex program behind KLIEP."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from covshift.blocks import sum_over_blocks
from covshift.exceptions import ConvergenceWarning

__all__ = ["maximise_mean_log", "optimality_gap"]

# Columns that may join the active set at a step; the solutions are sparse, so the quadratic programs stay small.
_NEWCOMERS = 10
_HALVINGS = 60


def maximise_mean_log(
    A: np.ndarray, theta: np.ndarray, *, tol: float = 1e-6, max_iter: int = 500
) -> tuple[np.ndarray, float, int]:
    """argmax of L(theta) = mean_i log (A theta)_i  subject to theta >= 0, sum theta = 1.

    With q = A theta and d = mean_i A_i / q_i the gradient, theta'd = 1, and for every feasible eta
    L(eta) - L(theta) <= log(eta'd) (Jensen), hence

        max L - L(theta) <= gap = log max_j d_j,

    which is the certificate. The sum constraint is traded for the term + sum theta (the minimiser of
    F = -L + sum theta has sum one by itself). Each step minimises F's second-order model over theta >= 0 on the
    current support and the columns with the largest d_j (constrained Newton method for mixtures; a non-negative
    least-squares problem), searches along the line and rescales to sum one.

    Parameters
    ----------
    A : (n, b), >= 0; every row has a positive entry
    theta : (b,) start, >= 0, with A theta > 0
    tol : largest gap that counts as converged; otherwise a `ConvergenceWarning`

    Returns
    -------
    theta : (b,), gap : float, steps : int
    """
    theta = theta / theta.sum()
    q = A @ theta
    gap = np.inf
    for step in range(max_iter):
        d = _mean_gradient(A, q)
        gap = max(float(np.log(d.max())), 0.0)
        if gap <= tol:
            return theta, gap, step
        active = _active_columns(theta, d)
        target = _newton_point(A[:, active], q, d[active], theta[active])
        moved, q = _line_search(A[:, active], q, theta[active], target, d[active])
        theta = np.zeros_like(theta)
        theta[active] = moved / moved.sum()
        q /= moved.sum()
    warnings.warn(
        f"The likelihood is within {gap:.1e} of its maximum after max_iter={max_iter} steps, not within tol={tol:g}. "
        "Raise max_iter or tol, or widen the bandwidth.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return theta, gap, max_iter


def optimality_gap(A: np.ndarray, theta: np.ndarray) -> float:
    """An upper bound of max L - L(theta), from A and theta alone."""
    return max(float(np.log(_mean_gradient(A, A @ theta).max())), 0.0)


def _mean_gradient(A: np.ndarray, q: np.ndarray) -> np.ndarray:
    return sum_over_blocks(lambda a, q: (1.0 / q) @ a, A, q, floats_per_row=A.shape[1]) / len(A)


def _active_columns(theta: np.ndarray, d: np.ndarray) -> np.ndarray:
    top = np.argsort(-d, kind="stable")[:_NEWCOMERS]
    return np.union1d(np.flatnonzero(theta > 0), top[d[top] > 1])


def _newton_point(A: np.ndarray, q: np.ndarray, d: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """argmin over eta >= 0 of (1 - d)'(eta - theta) + 1/2 (eta - theta)'H(eta - theta), H = mean A_i A_i'/q_i^2."""

    def outer(a: np.ndarray, q: np.ndarray) -> np.ndarray:
        scaled = a / q[:, None]
        return scaled.T @ scaled

    H = sum_over_blocks(outer, A, q, floats_per_row=2 * A.shape[1]) / len(A)
    # Large columns are scaled down and a proximal term is added: nearly equal columns must not break the factor,
    # and the fixed point stays where it is.
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1.0))
    H *= scale[:, None] * scale
    near = theta / scale
    prox = 1e-10
    H[np.diag_indices(len(H))] += prox
    right = (2 * d - 1) * scale + prox * near  # H theta = d
    L = cholesky(H, lower=True)
    eta, _ = nnls(L.T, solve_triangular(L, right, lower=True), maxiter=30 * len(H))
    return eta * scale


def _line_search(
    A: np.ndarray, q: np.ndarray, theta: np.ndarray, target: np.ndarray, d: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Halve the way to `target` until F falls by a fair share of what its slope promises."""
    direction = target - theta
    dq = A @ direction
    slope = float((1 - d) @ direction)
    start = -np.log(q).mean()
    t = 1.0
    for _ in range(_HALVINGS):
        moved = target if t == 1.0 else theta + t * direction
        q_new = q + t * dq
        if q_new.min() > 0 and -np.log(q_new).mean() + t * direction.sum() <= start + 1e-4 * t * slope + 1e-15:
            return moved, q_new
        t /= 2
    return theta, q
