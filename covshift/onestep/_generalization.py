"""What Theorem 2 needs of a fitted model: numbers read off its rows while they are at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covshift.losses import Loss
from covshift.onestep._alternate import row_losses
from covshift.onestep._g_step import importance
from covshift.onestep._model import KernelModel
from covshift.onestep._objective import objective, weighted_mean
from covshift.onestep._sample import Prepared
from covshift.theory._plugin import PluginBound, bound_from_constants, plugin_constants


@dataclass(frozen=True)
class TheoremInputs:
    """Constants of the printed and of the tight Lemma, with the objective of the bounded loss at the fitted pair."""

    J_hat: float
    printed: dict[str, float]
    tight: dict[str, float]
    n_source: int
    n_target: int

    def bound(self, C: float, delta: float, tight: bool, m: float) -> PluginBound:
        """Theorem 2 with these constants and C plugged in."""
        return bound_from_constants(
            self.tight if tight else self.printed,
            J_hat=self.J_hat,
            C=C,
            n_source=self.n_source,
            n_target=self.n_target,
            m=m,
            delta=delta,
            tight=tight,
        )


def theorem_inputs(
    prepared: Prepared,
    model: KernelModel,
    which: np.ndarray,
    loss: Loss,
    factor: float,
    m: float,
) -> TheoremInputs:
    """Read the constants off sum_c q_c f_c and sum_c q_c g_c; `which` are the candidates' bandwidths_g by number.

    Features of all bandwidths in use stand side by side, so the average is one linear model: f has radius |alpha|,
    and g lies in the convex hull of a ball of radius max_c |beta_c|, which has the ball's complexity.
    """
    sample = prepared.sample
    q, beta, shrink = model.q, model.beta, model.shrink
    widths = np.unique(model.bandwidths_f)
    Phi = np.hstack([sample.basis.features(prepared.rows, sigma) for sigma in widths])
    parts = [model.bandwidths_f == sigma for sigma in widths]
    alpha = np.concatenate([model.coef[:, 0, own] @ q[own] for own in parts])
    b = float(model.intercept[0] @ q)
    used = np.unique(which)
    g_source = sum(q[c] * importance(prepared.g.Psi[j], beta[:, c], shrink) for c, j in enumerate(which))
    g_target = sum(q[c] * importance(prepared.g.Psi_target[j], beta[:, c], shrink) for c, j in enumerate(which))
    l = factor * row_losses(loss, (Phi @ alpha + b)[:, None, None], sample.Y)[:, 0]
    s = sample.s
    lg, gg = weighted_mean(l * g_source, s), weighted_mean(g_source**2, s)
    shared: dict[str, Any] = {
        "radius_f": float(np.linalg.norm(alpha)),
        "radius_g": float(np.linalg.norm(beta, axis=0).max()),
        "Phi": Phi,
        "Psi_source": np.hstack([prepared.g.Psi[j] for j in used]),
        "Psi_target": np.hstack([prepared.g.Psi_target[j] for j in used]),
        "y": sample.Y[:, 0] - b,
        "loss": loss,
        "factor": factor,
        "shrink": shrink,
        "m": m,
    }
    return TheoremInputs(
        float(objective(lg, gg, np.mean(g_target), m=m)),
        plugin_constants(**shared, tight=False),
        plugin_constants(**shared, tight=True),
        round(sample.n),
        len(sample.X_target),
    )
