"""The f-step for the hinge loss: the weighted SVM of all candidates, by a primal-dual interior point method."""

from __future__ import annotations

import warnings

import numpy as np

from covshift.exceptions import ConvergenceWarning
from covshift.onestep._f_step import FRows, normal_equations, solve_candidates

# Certified: (primal - dual) objective, relative to the primal one. Asked for, and what is passed in silence.
GAP = 1e-10
_LOOSE_GAP = 1e-6
_ROUNDS = 100
_TO_THE_WALL = 0.995
_TINY = 1e-30  # differences of numbers of order one that rounding has made zero


def hinge_step(rows: FRows, W: np.ndarray, reg_f: np.ndarray) -> np.ndarray:
    """argmin_alpha mean w max(1 - y f, 0) + reg_f |alpha|^2, the weighted SVM without intercept; shape (q, 1, c).

    With z = y phi and v = s w / n, it is the linear-quadratic programme and its dual

        min  reg_f |alpha|^2 + v'xi    s.t.  xi >= 0,  t = z'alpha + xi - 1 >= 0
        max  sum a - |sum_i a_i z_i|^2 / (4 reg_f)    s.t.  0 <= a <= v.

    Newton's method on their optimality conditions with a t = (v - a) xi = mu needs one q x q system a round,
    Phi'D Phi + 2 reg_f I, which all candidates solve in lock step. (Coordinate descent on the dual, liblinear's
    way, needs up to millions of passes where Gaussian bases are numerically of low rank, and is off by any factor
    when it stops early.) The certificate is the duality gap, at most 1e-6 of the objective or a
    ConvergenceWarning says so. Rows without weight are left out; weight on one class only gives a column of NaN.
    """
    y = rows.Y[:, 0]
    v = (W if rows.s is None else W * rows.s[:, None]) / rows.n
    alpha = np.full((rows.Phi.shape[1], 1, W.shape[1]), np.nan)
    sound = np.flatnonzero((v[y > 0] > 0).any(axis=0) & (v[y < 0] > 0).any(axis=0) & np.isfinite(v).all(axis=0))
    if len(sound):
        problem = _InteriorPoint(rows, v[:, sound], reg_f[sound])
        alpha[:, 0, sound] = problem.solve()
        if problem.gap.max() > _LOOSE_GAP:
            warnings.warn(
                f"the f-step of the hinge loss stopped after {_ROUNDS} rounds with a duality gap of "
                f"{problem.gap.max():.2g} of the objective; consider a larger reg_f",
                ConvergenceWarning,
                stacklevel=2,
            )
    return alpha


class _InteriorPoint:
    """Iterates of all candidates, columns of each array; rows where v = 0 take no part."""

    def __init__(self, rows: FRows, v: np.ndarray, reg: np.ndarray) -> None:
        self.rows, self.y = rows, rows.Y[:, :1]
        total = v.sum(axis=0)  # the programme divided by sum v: weights that sum to one
        self.v, self.ridge = v / total, 2.0 * reg / total
        self.kept = self.v > 0
        self.alpha = np.zeros((rows.Phi.shape[1], v.shape[1]))
        self.a = 0.5 * self.v
        self.xi = np.where(self.kept, 2.0, 0.0)
        self.gap = np.full(v.shape[1], np.inf)

    def solve(self) -> np.ndarray:
        best, best_gap = self.alpha.copy(), self.gap.copy()
        for _ in range(_ROUNDS):
            self._step()
            better = self._measure() < best_gap
            best[:, better], best_gap[better] = self.alpha[:, better], self.gap[better]
            if (best_gap <= GAP).all():
                break
        self.gap = best_gap
        return best

    def _measure(self) -> np.ndarray:
        """Relative duality gap of alpha and a."""
        pull = self.rows.Phi.T @ (self.y * self.a)
        short = np.maximum(1.0 - self.y * (self.rows.Phi @ self.alpha), 0.0)
        primal = 0.5 * self.ridge * (self.alpha**2).sum(axis=0) + (self.v * short).sum(axis=0)
        dual = self.a.sum(axis=0) - 0.5 * (pull**2).sum(axis=0) / self.ridge
        self.gap = (primal - dual) / np.maximum(np.abs(primal), 1e-300)
        return self.gap

    def _step(self) -> None:
        a, xi, kept, y, Phi = self.a, self.xi, self.kept, self.y, self.rows.Phi
        t = np.where(kept, np.maximum(y * (Phi @ self.alpha) + xi - 1.0, _TINY), 0.0)
        b = np.where(kept, np.maximum(self.v - a, _TINY), 0.0)
        n_kept = kept.sum(axis=0)
        mu = ((a * t).sum(axis=0) + (b * xi).sum(axis=0)) / (2.0 * n_kept)
        one = np.where(kept, 1.0, 0.0)
        safe_a, safe_b = np.where(kept, a, 1.0), np.where(kept, b, 1.0)
        D = one / np.where(kept, t / safe_a + xi / safe_b, 1.0)
        # The direction is linear in the target mu: both parts are right-hand sides of one system.
        r0, r1 = xi - t, one / safe_a - one / safe_b
        right = np.stack([Phi.T @ (y * (D * r0 + a)) - self.ridge * self.alpha, Phi.T @ (y * (D * r1))], axis=1)
        move = self._newton(D, right)  # (q, 2, c)
        da0, da1 = (D * (r - y * (Phi @ move[:, k])) for k, r in enumerate((r0, r1)))
        dxi0, dxi1 = (-b * xi + xi * da0) / safe_b, (one + xi * da1) / safe_b
        dt0, dt1 = y * (Phi @ move[:, 0]) + dxi0, y * (Phi @ move[:, 1]) + dxi1

        def length(da: np.ndarray, dxi: np.ndarray, dt: np.ndarray) -> np.ndarray:
            pairs = ((a, da), (b, -da), (xi, dxi), (t, dt))
            steepest = [np.where(kept & (d < 0), -d / np.where(kept, p, 1.0), 0.0).max(axis=0) for p, d in pairs]
            return np.minimum(1.0, _TO_THE_WALL / np.maximum(np.max(steepest, axis=0), 1e-300))

        free = length(da0, dxi0, dt0)
        after = ((a + free * da0) * (t + free * dt0) + (b - free * da0) * (xi + free * dxi0)).sum(axis=0)
        mu *= np.minimum(after / (2.0 * n_kept) / np.maximum(mu, 1e-300), 1.0) ** 3
        da, dxi, dt = da0 + mu * da1, dxi0 + mu * dxi1, dt0 + mu * dt1
        step = length(da, dxi, dt)
        self.alpha = self.alpha + step * (move[:, 0] + mu * move[:, 1])
        self.a, self.xi = a + step * da, xi + step * dxi

    def _newton(self, D: np.ndarray, right: np.ndarray) -> np.ndarray:
        """(Phi'D Phi + ridge I)^-1 right, (q, 2, c)."""
        q, K, c = right.shape
        outer = normal_equations(self.rows, D if self.rows.s is None else D / self.rows.s[:, None])
        S = np.vstack([outer[: q * (q + 1) // 2], right.reshape(q * K, c)])
        return solve_candidates(S, self.ridge, self.rows.penalty, K)
