"""What a candidate is judged by: the paper's objective on held-out rows, or the corrected weighted error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covshift._split import Fold
from covshift.blocks import sum_over_blocks
from covshift.onestep._alternate import Candidates, Plan, Solution, row_losses, scores
from covshift.onestep._door import REGS_G
from covshift.onestep._f_step import FRows
from covshift.onestep._g_step import GRows, GSystem
from covshift.onestep._objective import weighted_mean
from covshift.onestep._sample import FBasis, Sample

_TEMPERATURE = 0.03
_WEIGHT_FLOOR = 1e-9


def fold_objective(rows: FRows, g: GRows, fit: Solution, candidates: Candidates, plan: Plan) -> np.ndarray:
    """The empirical objective of one fold's models on its held-out rows, shape (c,); NaN where a candidate failed."""
    W = g.weights(fit.beta, candidates.which, plan.shrink)
    l = row_losses(plan.loss, scores(rows.Phi, fit.alpha), rows.Y)
    return g.bound(W, l, g.target_mean(fit.beta, candidates.which, plan.shrink), plan.m)


@dataclass(frozen=True)
class Reference:
    """One loss-free importance for all candidates: uLSIF's fold models, averaged over their regularisations.

    `weights[k]` are its values at the held-out source rows of fold k, `C` their cross-fitted mean over held-out
    target rows, an estimate of mean_t r.
    """

    weights: list[np.ndarray]
    C: float
    n_eff: float


def reference_weights(
    systems: list[list[GSystem]], held_out: tuple[GRows, ...], regs_g: tuple[float, ...], m: float
) -> Reference:
    """w_i = sum_c a_c g_c(x_i), a_c proportional to exp(-(J_c - min J) / 0.03), at least 1e-9.

    c runs over the grid of g; g_c is the clipped loss-free uLSIF of the fold that held row i out, and J_c the mean
    over folds of mean_s g_c^2 - 2 mean_t g_c on held-out rows.
    """
    # A grid without any finite value (the unweighted learner) is judged as the default grid is.
    regs = np.array([reg for reg in regs_g if np.isfinite(reg)] or REGS_G)
    J, values, target_means = [], [], []
    for fold_systems, g in zip(systems, held_out, strict=True):
        betas = [system.loss_free(regs, m) for system in fold_systems]
        W = np.hstack([Psi @ beta for Psi, beta in zip(g.Psi, betas, strict=True)])
        gt = np.concatenate([h @ beta for h, beta in zip(g.h, betas, strict=True)])
        J.append(weighted_mean(W**2, g.s) - 2.0 * gt)
        values.append(W)
        target_means.append(gt)
    mean_J = np.mean(J, axis=0)
    a = np.exp(-(mean_J - mean_J.min()) / _TEMPERATURE)
    a /= a.sum()
    weights = [np.maximum(W @ a, _WEIGHT_FLOOR) for W in values]
    w = np.concatenate(weights)
    s = np.concatenate([np.ones(len(g.Psi[0])) if g.s is None else g.s for g in held_out])
    n_eff = float((s @ w) ** 2 / (s @ w**2))
    return Reference(weights, float(np.mean(target_means, axis=0) @ a), n_eff)


def uniform_reference(held_out: tuple[GRows, ...]) -> Reference:
    """Weights of one, where there is no target."""
    return Reference([np.ones(len(g.Psi[0])) for g in held_out], 1.0, float(sum(g.n for g in held_out)))


def corrected_score(
    f: FBasis,
    sample: Sample,
    folds: list[Fold],
    fits: list[Solution],
    reference: Reference,
    variance_weight: float,
) -> np.ndarray:
    """S = R_w + v (V_target - V_source)_+ for all candidates of one bandwidth_f.

    R_w = sum_i w_i l_i / sum_i w_i with l_i the squared error of a row's own held-out fold model and w_i the
    reference; V(x) = (k-1)/k sum_k (f_k(x) - mean_k f_k(x))^2 over the k fold models, V_target its mean over target
    rows, V_source its w-weighted mean over source rows. Source rows cannot show the variance of an extrapolation,
    unlabelled target rows can. With K outputs both sums carry a half, so that two classes score as one output does.
    """
    alphas = [fit.alpha for fit in fits]
    half = 0.5 if sample.Y.shape[1] > 1 else 1.0
    c = alphas[0].shape[2]
    risk, total, spread_source = np.zeros(c), 0.0, np.zeros(c)
    for k, fold in enumerate(folds):
        w = reference.weights[k] if sample.s is None else reference.weights[k] * sample.s[fold.test]

        def sums(Phi: np.ndarray, Y: np.ndarray, w: np.ndarray, own: int = k) -> tuple[np.ndarray, np.ndarray]:
            F = np.stack([scores(Phi, alpha) for alpha in alphas])  # (k, rows, K, c)
            error = half * ((F[own] - Y[:, :, None]) ** 2).sum(axis=1)
            return w @ error, w @ (half * fold_variance(F))

        width = len(alphas) * alphas[0][0].size
        part, spread = sum_over_blocks(sums, f.Phi[fold.test], sample.Y[fold.test], w, floats_per_row=width)
        risk, spread_source, total = risk + part, spread_source + spread, total + w.sum()

    def target_sums(Phi: np.ndarray) -> np.ndarray:
        return half * fold_variance(np.stack([scores(Phi, alpha) for alpha in alphas])).sum(axis=0)

    width = len(alphas) * alphas[0][0].size
    spread_target = sum_over_blocks(target_sums, f.Phi_target, floats_per_row=width) / len(f.Phi_target)
    return risk / total + variance_weight * np.maximum(spread_target - spread_source / total, 0.0)


def fold_variance(F: np.ndarray) -> np.ndarray:
    """V at rows, summed over outputs: F of shape (k, rows, K, c) gives (rows, c)."""
    k = len(F)
    return (k - 1) / k * ((F - F.mean(axis=0)) ** 2).sum(axis=(0, 2))
