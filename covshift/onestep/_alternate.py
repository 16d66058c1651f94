"""Algorithm 1: the alternation between g and f, for many candidates in lock step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from covshift.losses import Loss
from covshift.onestep._f_convex import newton_step
from covshift.onestep._f_step import FRows, irls_step, ridge_step
from covshift.onestep._g_step import GRows, GSystem, step_all
from covshift.onestep._hinge import hinge_step


@dataclass(frozen=True)
class Plan:
    """How the alternation runs; the same for all candidates.

    `coupling` k multiplies the loss term in g's step: 1 is the paper, 0 the control in which g never sees a loss.
    """

    loss: Loss
    shrink: str = "one"
    start: str = "loss_free"
    max_iter: int = 4
    tol: float = 1e-4
    coupling: float = 1.0
    m: float = 1.0


@dataclass(frozen=True)
class Candidates:
    """Columns of one batch: index of the bandwidth_g (sorted), reg_g and reg_f."""

    which: np.ndarray
    reg_g: np.ndarray
    reg_f: np.ndarray

    def __len__(self) -> int:
        return len(self.which)

    def __getitem__(self, columns: slice | np.ndarray) -> Candidates:
        return Candidates(self.which[columns], self.reg_g[columns], self.reg_f[columns])


@dataclass
class Solution:
    """Candidates after the alternation; columns are candidates, NaN in alpha where one has failed.

    `J` and `J_unclipped` hold the objective after each round (NaN once a candidate has stopped); the second is taken
    with g before clipping.
    """

    alpha: np.ndarray  # (q, K, c)
    beta: np.ndarray  # (b, c)
    n_iter: np.ndarray  # (c,)
    all_zero: np.ndarray  # (c,) whether every weight was clipped
    J: list[np.ndarray] = field(default_factory=list)
    J_unclipped: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def empty(cls, q: int, K: int, b: int, c: int) -> Solution:
        return cls(
            np.full((q, K, c), np.nan),
            np.zeros((b, c)),
            np.zeros(c, dtype=int),
            np.zeros(c, dtype=bool),
        )

    def store(self, columns: slice, other: Solution) -> None:
        """Put the candidates of a smaller batch into their columns."""
        self.alpha[..., columns], self.beta[:, columns] = other.alpha, other.beta
        self.n_iter[columns], self.all_zero[columns] = other.n_iter, other.all_zero


def row_losses(loss: Loss, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """l at rows for scores F (n, K, c): the loss itself, or one against the rest, 1/2 sum_k (f_k - t_k)^2."""
    if loss.task == "multiclass":
        return loss.value(F, Y.argmax(axis=1))
    if F.shape[1] == 1:
        return loss.value(F[:, 0], Y)
    return 0.5 * loss.value(F, Y[:, :, None]).sum(axis=1)


def scores(Phi: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """F = Phi alpha for all outputs and candidates, shape (n, K, c)."""
    q, K, c = alpha.shape
    return (Phi @ alpha.reshape(q, K * c)).reshape(len(Phi), K, c)


def f_step(plan: Plan, rows: FRows, W: np.ndarray, reg_f: np.ndarray, alpha: np.ndarray, first: bool) -> np.ndarray:
    """Lines 9 to 13 of Algorithm 1: weighted ERM with the loss of the plan."""
    loss = plan.loss
    if loss.name == "squared":
        return ridge_step(rows, W, reg_f)
    if loss.has_irls:
        if first:  # the quadratic that touches the loss at residual zero: a start that ignores no row
            level = float(np.ravel(loss.irls_weight(np.zeros(1), np.zeros(1)))[0])
            alpha = ridge_step(rows, level * W, reg_f)
        return irls_step(rows, W, reg_f, loss, alpha)
    if loss.name == "hinge":
        return hinge_step(rows, W, reg_f)
    return newton_step(rows, W, reg_f, loss, alpha)


def alternate(
    f: FRows, g: GRows, systems: list[GSystem], candidates: Candidates, plan: Plan, *, record: bool = False
) -> Solution:
    """Algorithm 1 for all candidates on one fold and one bandwidth_f.

    A round is lines 5 to 13. J is the empirical objective without ridge terms and without C at (alpha, clipped g) of
    the round; a candidate stops where |J_t - J_{t-1}| <= tol max(|J_t|, m^2), at most after `max_iter` rounds, and
    keeps its last round. Clipping is a projection and f's step minimises mean w l + reg_f |alpha|^2 without the
    square, so J need not descend.
    """
    c, q, K, b = len(candidates), f.Phi.shape[1], f.Y.shape[1], g.Psi[0].shape[1]
    out = Solution.empty(q, K, b, c)
    active, previous = np.arange(c), np.full(c, np.inf)
    alpha, u, lbar = np.zeros((q, K, c)), np.zeros((b, c)), np.zeros(c)
    if plan.start == "zero" and plan.coupling:  # lines 1 and 5 with alpha_0 = 0
        l = row_losses(plan.loss, np.zeros((len(f.Y), K, 1)), f.Y)
        u, lbar = g.loss_moments(np.repeat(l, c, axis=1), candidates.which)
    root_k = np.sqrt(plan.coupling)
    for t in range(plan.max_iter):
        now = candidates[active]
        free = step_all(systems, root_k * u, root_k * lbar, now.reg_g, now.which, plan.shrink, plan.m)  # line 6
        beta = np.maximum(free, 0.0) if plan.shrink == "zero" else free  # line 7
        W = g.weights(beta, now.which, plan.shrink)  # line 8
        alive = np.asarray(W.any(axis=0))
        if not alive.all():
            dead = active[~alive]
            out.alpha[..., dead], out.beta[:, dead] = np.nan, beta[:, ~alive]
            out.n_iter[dead], out.all_zero[dead] = t + 1, True
            active, now, free, beta, W = active[alive], now[alive], free[:, alive], beta[:, alive], W[:, alive]
            alpha, previous = alpha[..., alive], previous[alive]
        if not len(active):
            break
        alpha = f_step(plan, f, W, now.reg_f, alpha, t == 0)  # lines 9 to 13
        l = row_losses(plan.loss, scores(f.Phi, alpha), f.Y)  # line 5 of the next round
        J = g.bound(W, l, g.target_mean(beta, now.which, plan.shrink), plan.m)
        change = np.abs(J - previous)
        out.alpha[..., active], out.beta[:, active] = alpha, beta
        out.n_iter[active] = t + 1
        if record:
            out.J.append(_spread(J, active, c))
            out.J_unclipped.append(_spread(_unclipped_bound(g, free, now.which, l, plan), active, c))
        going = (change > plan.tol * np.maximum(np.abs(J), plan.m**2)) & np.isfinite(J)
        if t + 1 == plan.max_iter or not going.any():
            break
        active, alpha, previous, l = active[going], alpha[..., going], J[going], l[:, going]
        u, lbar = np.zeros((b, len(active))), np.zeros(len(active))
        if plan.coupling:
            u, lbar = g.loss_moments(l, candidates.which[active])
    return out


def _unclipped_bound(g: GRows, beta: np.ndarray, which: np.ndarray, l: np.ndarray, plan: Plan) -> np.ndarray:
    """J with g = beta'psi (plus one) as the linear system gave it, negative values included."""
    one = float(plan.shrink == "one")
    W, gt = g.weights(beta, which, "zero") + one, g.target_mean(beta, which, "zero") + one
    return g.bound(W, l, gt, plan.m)


def _spread(values: np.ndarray, active: np.ndarray, c: int) -> np.ndarray:
    full = np.full(c, np.nan)
    full[active] = values
    return full
