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


@dataclass(frozen=True)
class Moments:
    """Feature sums of one set of rows, for every bandwidth of a grid; sums subtract, means do not."""

    outer: np.ndarray | None  # (n_bw, b, b) sum of s psi psi'
    first: np.ndarray  # (n_bw, b) sum of s psi
    n: float  # sum of s

    @property
    def second_moment(self) -> np.ndarray:
        """Mean of psi psi', (n_bw, b, b)."""
        assert self.outer is not None
        return self.outer / self.n

    @property
    def mean(self) -> np.ndarray:
        """Mean of psi, (n_bw, b)."""
        return self.first / self.n

    def without(self, part: Moments) -> Moments:
        """The sums of the other rows."""
        outer = None if self.outer is None or part.outer is None else self.outer - part.outer
        return Moments(outer, self.first - part.first, self.n - part.n)


def moments(
    basis: Basis,
    rows: np.ndarray,
    bandwidths: np.ndarray,
    s: np.ndarray | None = None,
    *,
    subset: np.ndarray | None = None,
    second: bool = True,
) -> Moments:
    """Feature sums over `rows`, or over `rows[subset]`, with frequencies s, in double precision.

    Rows are read block by block, their distances computed once for all bandwidths, and features never held for all
    rows.
    """
    b = basis.n_features

    def sums(X: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, float]:
        prepared = basis.prepare(X)
        outer, first = np.zeros((len(bandwidths), b, b) if second else 0), np.zeros((len(bandwidths), b))
        for k, bandwidth in enumerate(bandwidths):
            Psi = basis.features(prepared, bandwidth)
            first[k] = (np.ones(len(X), Psi.dtype) if s is None else s) @ Psi  # BLAS, three times faster than sum
            if second:
                root = Psi if s is None else Psi * np.sqrt(s).astype(Psi.dtype)[:, None]
                outer[k] = root.T @ root  # one factor twice: BLAS computes half of it
        return outer, first, float(len(X)) if s is None else float(s.sum())

    def sums_of_subset(index: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        return sums(rows[index], None if s is None else s[index])

    width = 6 * b + rows.shape[1]
    if subset is None:
        outer, first, n = sum_over_blocks(sums, rows, s, floats_per_row=width)
    else:
        outer, first, n = sum_over_blocks(sums_of_subset, subset, floats_per_row=width)
    return Moments(outer if second else None, first, n)


def feature_moments(
    basis: Basis, rows: np.ndarray, bandwidth: float, s: np.ndarray | None = None, *, second: bool = True
) -> tuple[np.ndarray | None, np.ndarray]:
    """(mean of psi psi', mean of psi) over rows with frequencies s, for one bandwidth."""
    of = moments(basis, rows, np.array([bandwidth]), s, second=second)
    return (of.second_moment[0] if second else None), of.mean[0]


def clipped_betas(H: np.ndarray, h: np.ndarray, regs: np.ndarray) -> np.ndarray:
    """beta = max((H + reg I)^-1 h, 0) for all regs, (b, n_reg)."""
    return np.maximum(Factor.of(H).solve(h, regs), 0.0)


def relative_second_moment(source: Moments, target: Moments, a: float) -> np.ndarray:
    """H = (1 - a) H_source + a H_target for every bandwidth: RuLSIF's system, uLSIF's for a = 0."""
    H = source.second_moment
    return H if a == 0 else (1 - a) * H + a * target.second_moment
