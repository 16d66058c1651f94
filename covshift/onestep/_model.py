"""The fitted model: f and g as sums over the kept candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covshift.basis import Basis
from covshift.blocks import map_blocks
from covshift.onestep._door import Units
from covshift.onestep._g_step import importance


@dataclass(frozen=True)
class KernelModel:
    """f and g as sums over the kept candidates; everything that prediction needs."""

    units: Units
    basis: Basis
    shrink: str
    bandwidths_f: np.ndarray  # (c,)
    coef: np.ndarray  # (b, K, c)
    intercept: np.ndarray  # (K, c)
    bandwidths_g: np.ndarray  # (c,)
    beta: np.ndarray  # (b, c)
    q: np.ndarray  # (c,) averaging weights

    def scores(self, X: np.ndarray) -> np.ndarray:
        """sum_c q_c f_c(x), shape (n, K)."""
        mixtures = [
            (sigma, self.coef[..., own] @ self.q[own], self.intercept[:, own] @ self.q[own])
            for sigma in np.unique(self.bandwidths_f)
            for own in [self.bandwidths_f == sigma]
        ]

        def block(rows: np.ndarray) -> np.ndarray:
            prepared = self.basis.prepare(self.units.apply(rows))
            parts = (self.basis.features(prepared, sigma) @ coef + b for sigma, coef, b in mixtures)
            return sum(parts, start=np.zeros(()))

        return map_blocks(block, X, 3 * self.basis.n_features)

    def weights(self, X: np.ndarray) -> np.ndarray:
        """sum_c q_c max(g_c(x), 0), shape (n,); exactly one where no candidate moves a weight."""
        if self.shrink == "one" and not self.beta.any():
            return np.ones(len(X))

        def block(rows: np.ndarray) -> np.ndarray:
            prepared = self.basis.prepare(self.units.apply(rows))
            g = np.zeros(len(rows))
            for sigma in np.unique(self.bandwidths_g):
                own = self.bandwidths_g == sigma
                g += importance(self.basis.features(prepared, sigma), self.beta[:, own], self.shrink) @ self.q[own]
            return g

        return map_blocks(block, X, 3 * self.basis.n_features + len(self.q))
