"""From two samples to a basis: scaling, centres and bandwidths of the ratio models that are linear in a basis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covshift.basis import BASES, Basis, draw_centers, median_bandwidth
from covshift.blocks import sum_over_blocks
from covshift.ratio._base import RatioSample

__all__ = ["RatioBasis", "ScaledBasis", "make_basis"]

# Distances that the median looks at: 8 MiB, and as much for their roots and their partition.
_MEDIAN_DISTANCES = 1 << 20
# Rows of either sample that centres are drawn from.
_CENTRE_ROWS = 1 << 16


@dataclass(frozen=True)
class ScaledBasis(Basis):
    """A basis seen through x -> (x - middle) / scale, in double precision, so that no scaled sample is ever held."""

    inner: Basis
    middle: np.ndarray  # (d,)
    scale: np.ndarray  # (d,)

    @classmethod
    def from_centers(cls, centers: np.ndarray) -> ScaledBasis:
        d = centers.shape[1]
        return cls(BASES["gaussian"].from_centers(centers), np.zeros(d), np.ones(d))

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    def prepare(self, X: np.ndarray) -> np.ndarray:
        return self.inner.prepare((X - self.middle) / self.scale)

    def features(self, prepared: np.ndarray, bandwidth: float) -> np.ndarray:
        return self.inner.features(prepared, bandwidth)


@dataclass(frozen=True)
class RatioBasis:
    """A basis on drawn centres, and the median distance that its bandwidths are multiples of."""

    basis: ScaledBasis
    centers: np.ndarray  # (b, d), in the units of X
    median: float  # in scaled units


def make_basis(
    sample: RatioSample, name: str, n_centers: int, where: str, standardize: bool, rng: np.random.Generator
) -> RatioBasis:
    """Draw centres, z-score on the pooled rows if asked to, and take the median distance of all rows to the centres.

    More than 65,536 rows of a sample, and more than 2^20 distances, are thinned (`thinned_rows`).
    """
    X, X_target, s = sample.X, sample.X_target, sample.s
    candidates = X[thinned_rows(X, s, _CENTRE_ROWS)]
    candidates_target = X_target[thinned_rows(X_target, None, _CENTRE_ROWS)]
    centers = draw_centers(candidates, candidates_target, n_centers, where, rng)
    d = X.shape[1]
    middle, scale = pooled_scaling(X, X_target, s) if standardize else (np.zeros(d), np.ones(d))
    limit = _MEDIAN_DISTANCES // (2 * len(centers))
    kept, kept_target = thinned_rows(X, s, limit), thinned_rows(X_target, None, limit)
    few, few_target, scaled = ((rows - middle) / scale for rows in (X[kept], X_target[kept_target], centers))
    median = median_bandwidth(few, few_target, scaled, None if s is None else s[kept])
    return RatioBasis(ScaledBasis(BASES[name].from_centers(scaled), middle, scale), centers, median)


def pooled_scaling(X: np.ndarray, X_target: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the pooled rows, frequencies counted; 1 for a constant column.

    Deviations are measured in units of the largest entry, so their squares neither overflow nor vanish.
    """
    sides = ((X, s), (X_target, None))
    largest = np.max([np.maximum(rows.max(axis=0), -rows.min(axis=0)) for rows, _ in sides], axis=0).astype(
        np.float64
    )
    unit = np.where(largest > 0, largest, 1.0)

    def mean_of(power: int, middle: np.ndarray) -> np.ndarray:
        def sums(rows: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, float]:
            deviation = (rows / unit - middle) ** power
            return (deviation.sum(axis=0), float(len(rows))) if s is None else (s @ deviation, float(s.sum()))

        parts = [sum_over_blocks(sums, rows, s, floats_per_row=3 * X.shape[1]) for rows, s in sides]
        return sum(part for part, _ in parts) / sum(n for _, n in parts)

    middle = mean_of(1, np.zeros(X.shape[1]))
    spread = np.sqrt(mean_of(2, middle))
    return middle * unit, np.where(spread > 1e-12, spread, 1.0) * unit


def thinned_rows(rows: np.ndarray, s: np.ndarray | None, limit: int) -> np.ndarray | slice:
    """Which of many rows to look at: about `limit` of them, chosen by a hash of their content.

    Neither order nor repetition decides, so a row of frequency k is still k copies. Up to `limit` rows (frequencies
    counted) all are kept.
    """
    n = float(len(rows)) if s is None else float(s.sum())
    if n <= limit:
        return slice(None)
    odd = 2 * np.arange(1, rows.shape[1] + 1, dtype=np.uint64) + np.uint64(1)
    share, step = limit / n, 1 << 14
    kept = []
    for start in range(0, len(rows), step):
        bits = (rows[start : start + step].astype(np.float64) + 0.0).view(np.uint64)  # + 0.0: no negative zero
        h = _mixed(_mixed(bits * odd).sum(axis=1, dtype=np.uint64))
        kept.append(start + np.flatnonzero(h < share * 2.0**64))
    chosen = np.concatenate(kept)
    if len(chosen) == 0:
        return slice(0, 1)
    return chosen[:: -(-len(chosen) // (2 * limit))]  # where one row makes up much of the sample


def _mixed(h: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit words in which every bit depends on all (the finaliser of SplitMix64)."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))
