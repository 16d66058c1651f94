"""Least-squares importance fitting: the system that uLSIF, RuLSIF and the g-step of Algorithm 1 share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covshift.basis import Basis
from covshift.blocks import sum_over_blocks


@dataclass(frozen=True)
class Factor:
    """H = V diag(e) V': factored once, so that every (H + reg I)^-1 is a diagonal scaling."""

    e: np.ndarray  # (b,), never negative
    V: np.ndarray  # (b, b)

    @classmethod
    def of(cls, H: np.ndarray) -> Factor:
        e, V = np.linalg.eigh(H)
        return cls(np.maximum(e, 0.0), V)

    def solve(self, right: np.ndarray, regs: np.ndarray) -> np.ndarray:
        """(H + reg_c I)^-1 right_c for all candidates c at once.

        Parameters
        ----------
        right : (b,) one right-hand side for all candidates, or (b, c) one a candidate
        regs : (c,) ; infinity gives zeros

        Returns
        -------
        (b, c)
        """
        rotated = self.V.T @ right
        if rotated.ndim == 1:
            rotated = rotated[:, None]
        return self.V @ (rotated / (self.e[:, None] + regs))


def feature_moments(
    basis: Basis, rows: np.ndarray, bandwidth: float, s: np.ndarray | None = None, *, second: bool = True
) -> tuple[np.ndarray | None, np.ndarray]:
    """(mean of psi psi', mean of psi) over rows with frequencies s, in double precision.

    `rows` are raw inputs; features are made block by block and never held for all rows.
    """
    b = basis.n_features

    def sums(X: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, float]:
        Psi = basis.transform(X, bandwidth)
        weighted = Psi if s is None else Psi * s[:, None].astype(Psi.dtype)
        total = float(len(X)) if s is None else float(s.sum())
        outer = weighted.T @ Psi if second else np.zeros(())
        return outer.astype(np.float64), weighted.sum(axis=0, dtype=np.float64), total

    outer, first, n = sum_over_blocks(sums, rows, s, floats_per_row=3 * b + rows.shape[1])
    return (outer / n if second else None), first / n
