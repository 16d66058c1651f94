"""An estimate of the upper bound of the target risk, from fold models on rows that they have not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covshift._split import Fold
from covshift.blocks import map_blocks
from covshift.losses import Loss
from covshift.onestep._alternate import row_losses, scores
from covshift.onestep._g_step import importance
from covshift.onestep._objective import objective, weighted_mean
from covshift.onestep._sample import Prepared
from covshift.onestep._scores import Reference
from covshift.onestep._search import FoldFits, Grid


@dataclass(frozen=True)
class RiskBound:
    """min(m, sqrt(2 J_UB)) for the bounded loss: an estimate, never a guarantee.

    J_UB = (mean_s l g)^2 + m^2 (mean_s g^2 - 2 mean_t g + C) on held-out rows, second term cut at 0. C = mean_t r
    is estimated by cross-fitting and usually far too small where the shift is strong: with few source rows under the
    target nothing shows how large r is there. Where the estimate of C falls to `constant_low` the second term is
    zero, and the value says nothing about how wrong g is. On the paper's toy the true C is 14.9 and the bound with it
    is above m, vacuous; estimates lie between 5 and 12 (12 draws), and the value on either side of the true risk.

    Attributes
    ----------
    value : the estimate, in units of the bounded loss (Tukey's or Welsch's, the zero-one loss)
    se : its standard error, from the folds
    constant : C as used, at least `constant_low`
    constant_low : 2 mean_t g - mean_s g^2, which the population value of C is never below
    vacuous : whether the value reaches m, so that it says nothing
    """

    value: float
    se: float
    constant: float
    constant_low: float
    vacuous: bool


def estimate_risk_bound(
    prepared: Prepared,
    grid: Grid,
    folds: list[Fold],
    fits: FoldFits,
    reference: Reference,
    index: np.ndarray,
    q: np.ndarray,
    shrink: str,
    loss: Loss,
    factor: float,
    m: float = 1.0,
) -> RiskBound:
    """The bound of sum_c q_c f_c and sum_c q_c g_c, with the fold models of the kept candidates `index`."""
    terms = []
    for k, fold in enumerate(folds):
        F, g_source, g_target = _averaged(prepared, grid, fold, fits, k, index, q, shrink)
        s = None if prepared.sample.s is None else prepared.sample.s[fold.test]
        l = factor * row_losses(loss, F[:, :, None], prepared.sample.Y[fold.test])[:, 0]
        lg, gg = weighted_mean(l * g_source, s), weighted_mean(g_source**2, s)
        terms.append((float(lg), float(gg), float(g_target.mean())))
    lg, gg, gt = np.array(terms).T
    constant_low = float(2.0 * gt.mean() - gg.mean())
    C = max(reference.C, constant_low)

    def value(lg: np.ndarray, gg: np.ndarray, gt: np.ndarray) -> np.ndarray:
        second = np.maximum(objective(0.0, gg, gt, m=m, C=C), 0.0)
        return np.minimum(m, np.sqrt(2.0 * (objective(lg, 0.0, 0.0, m=m) + second)))

    whole = float(value(lg.mean(), gg.mean(), gt.mean()))
    parts = value(lg, gg, gt)
    se = float(np.std(parts, ddof=1) / np.sqrt(len(parts))) if len(parts) > 1 else float("nan")
    return RiskBound(whole, se, C, constant_low, whole >= m)


def _averaged(
    prepared: Prepared,
    grid: Grid,
    fold: Fold,
    fits: FoldFits,
    k: int,
    index: np.ndarray,
    q: np.ndarray,
    shrink: str,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(F at the held-out source rows (n, K), g there, g at the held-out target rows) of the averaged fold model."""
    target = np.flatnonzero(np.isin(prepared.kept, fold.target_test, assume_unique=True))
    F = np.zeros((len(fold.test), prepared.sample.Y.shape[1]))
    g_source, g_target = np.zeros(len(fold.test)), np.zeros(len(target))
    i, c = np.divmod(index, len(grid.columns))
    for f, j in sorted(set(zip(i.tolist(), grid.columns.which[c].tolist(), strict=True))):
        own = np.flatnonzero((i == f) & (grid.columns.which[c] == j))
        F += scores(fits.bases[f].Phi[fold.test], fits.alpha[f][k][..., c[own]]) @ q[own]
        beta = fits.beta[f][k][:, c[own]]

        def g(Psi: np.ndarray, beta: np.ndarray = beta, q: np.ndarray = q[own]) -> np.ndarray:
            return importance(Psi, beta, shrink) @ q

        g_source += map_blocks(g, prepared.g.Psi[j][fold.test], len(own))
        g_target += map_blocks(g, prepared.g.Psi_target[j][target], len(own))
    return F, g_source, g_target
