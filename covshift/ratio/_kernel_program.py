"""The quadratic programme of kernel mean matching, by an interior point method with a certificate."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from covshift.basis import squared_distances
from covshift.exceptions import ConvergenceWarning

__all__ = ["Kernel", "MatchingProgram", "certified_gap", "gaussian_kernel", "match_means"]

_SHRINK = 0.995  # of the way to the boundary
_MAX_ITER = 100


@dataclass(frozen=True)
class Kernel:
    """K as L'L with few rows where the kernel is smooth, and as it is where it is not (`L` is then None)."""

    L: np.ndarray | None  # (r, n)
    K: np.ndarray | None  # (n, n)

    def product(self, v: np.ndarray) -> np.ndarray:
        if self.L is not None:
            return self.L.T @ (self.L @ v)
        assert self.K is not None
        return self.K @ v

    def newton_solver(self, p: np.ndarray, D: np.ndarray, c: float) -> Callable[[np.ndarray], np.ndarray]:
        """b -> (K diag(p) + diag(D) + c 1 p')^-1 b, by Woodbury's identity or by a dense factor.

        Multiplied by sqrt(p) from the left the system is symmetric in sqrt(p) times its solution.
        """
        root = np.sqrt(p)
        if self.L is not None:
            U = np.vstack([self.L * root, np.sqrt(c) * root])
            inner = (U / D) @ U.T
            inner[np.diag_indices(len(inner))] += 1.0
            factor = cho_factor(inner, lower=True, overwrite_a=True)

            def solve(b: np.ndarray) -> np.ndarray:
                x = root * b / D
                return (x - (U.T @ cho_solve(factor, U @ x)) / D) / root

            return solve
        assert self.K is not None
        M = self.K * root
        M *= root[:, None]
        M += c * np.outer(root, root)
        M[np.diag_indices(len(M))] += D
        dense = cho_factor(M, lower=True, overwrite_a=True)
        return lambda b: cho_solve(dense, root * b) / root


def gaussian_kernel(Z: np.ndarray, bandwidth: float, tol: float) -> Kernel:
    """exp(-||z_i - z_j||^2 / (2 sigma^2)), to `tol` in every entry.

    Pivoted incomplete Cholesky: the largest remaining diagonal entry bounds every remaining entry. Where n/4 rows do
    not suffice the whole matrix is cheaper.
    """
    n = len(Z)
    limit = min(n, max(n // 4, 64))
    L, rest, r = np.empty((min(limit, 64), n)), np.ones(n), 0
    while rest.max() > tol:
        if r == limit:
            D = squared_distances(Z, Z)
            D *= -0.5 / bandwidth / bandwidth
            return Kernel(None, np.exp(D, out=D))
        if r == len(L):
            L = np.vstack([L, np.empty((min(r, limit - r), n))])
        pivot = int(np.argmax(rest))
        row = np.exp(squared_distances(Z, Z[pivot : pivot + 1])[:, 0] * (-0.5 / bandwidth / bandwidth))
        row -= L[:r, pivot] @ L[:r]
        row /= np.sqrt(rest[pivot])
        L[r] = row
        rest = np.maximum(rest - row * row, 0.0)
        rest[pivot] = 0.0
        r += 1
    return Kernel(L[:r], None)


@dataclass(frozen=True)
class MatchingProgram:
    """min over w of 1/2 sum_ij p_i p_j w_i w_j K_ij - sum_i p_i w_i kappa_i + reg/2 sum_i p_i (w_i - 1)^2,

    0 <= w_i <= upper,  |sum_i p_i w_i - 1| <= slack.
    """

    p: np.ndarray  # (n,) shares of the rows, sum 1
    kappa: np.ndarray  # (n,) mean of k(x_i, .) over the target
    upper: float
    slack: float
    reg: float

    def gradient(self, Kpw: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Of the objective with respect to w_i, over p_i."""
        return Kpw - self.kappa + self.reg * (w - 1.0)


def certified_gap(program: MatchingProgram, gradient: np.ndarray, w: np.ndarray) -> float:
    """sup over feasible v of sum p_i gradient_i (w_i - v_i), an upper bound of J(w) - min J (J is convex).

    The supremum is a knapsack: v fills the rows of smallest gradient up to `upper` until the mean constraint binds.
    """
    order = np.argsort(gradient, kind="stable")
    gradient_sorted, mass = gradient[order], program.upper * program.p[order]
    wanted = float(np.clip(mass[gradient_sorted < 0].sum(), 1.0 - program.slack, 1.0 + program.slack))
    filled = np.clip(wanted - (np.cumsum(mass) - mass), 0.0, mass)
    return float(np.sum(program.p * gradient * w) - filled @ gradient_sorted)


@dataclass(frozen=True)
class _Newton:
    """One linear system of the interior point method, for several right-hand sides.

    c = (w, upper - w, m - 1 + slack, 1 + slack - m) are the slacks, m = sum p w, z their multipliers.
    """

    c: np.ndarray  # (2n + 2,)
    z: np.ndarray  # (2n + 2,)
    gradient: np.ndarray  # (n,)
    p: np.ndarray  # (n,)
    solve: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def at(
        cls, program: MatchingProgram, kernel: Kernel, w: np.ndarray, z: np.ndarray, gradient: np.ndarray
    ) -> _Newton:
        p, n = program.p, len(w)
        m = p @ w
        c = np.concatenate([w, program.upper - w, [m - 1.0 + program.slack, 1.0 + program.slack - m]])
        ratio = z / c
        solve = kernel.newton_solver(p, ratio[:n] + ratio[n : 2 * n] + program.reg, ratio[2 * n] + ratio[2 * n + 1])
        return cls(c, z, gradient, p, solve)

    def direction(self, complementarity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(dc, dz) with c dz + z dc = complementarity and gradient + (K p + reg) dw = pull of z + dz."""
        n = len(self.p)
        z = self.z + complementarity / self.c
        pull = z[:n] - z[n : 2 * n] + (z[2 * n] - z[2 * n + 1])
        dw = self.solve(pull - self.gradient)
        dm = self.p @ dw
        dc = np.concatenate([dw, -dw, [dm, -dm]])
        return dc, (complementarity - self.z * dc) / self.c


def match_means(program: MatchingProgram, kernel: Kernel, tol: float) -> np.ndarray:
    """w with `certified_gap` <= tol under `kernel`: Mehrotra's predictor and corrector, feasible throughout.

    Slacks and multipliers are weighed by p like the rows they belong to, so a row of frequency k is k copies.
    """
    p, n = program.p, len(program.p)
    nu = np.concatenate([p, p, [1.0, 1.0]])
    w = np.ones(n)
    z = np.concatenate([np.full(n, 0.1), np.full(n, 0.1 / program.upper), [0.1, 0.1]])
    gap = np.inf
    for _ in range(_MAX_ITER):
        gradient = program.gradient(kernel.product(p * w), w)
        gap = certified_gap(program, gradient, w)
        if gap <= tol:
            return w
        newton = _Newton.at(program, kernel, w, z, gradient)
        c = newton.c
        mu = nu @ (c * z) / 4.0
        dc, dz = newton.direction(-c * z)  # predictor
        t = _longest_step(c, dc, z, dz)
        centring = mu * (nu @ ((c + t * dc) * (z + t * dz)) / 4.0 / mu) ** 3
        dc, dz = newton.direction(centring - c * z - dc * dz)  # corrector
        t = _SHRINK * _longest_step(c, dc, z, dz)
        w, z = w + t * dc[:n], z + t * dz
    warnings.warn(
        f"KMM: the duality gap is {gap:.1e} after {_MAX_ITER} interior point steps, not {tol:.1e}. "
        "Use a smaller bandwidth (the kernel matrix is then better conditioned) or a larger tol.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return w


def _longest_step(c: np.ndarray, dc: np.ndarray, z: np.ndarray, dz: np.ndarray) -> float:
    """The largest t <= 1 that keeps c + t dc and z + t dz non-negative."""
    return 1.0 / max(1.0, float(np.max(-dc / c)), float(np.max(-dz / z)))
