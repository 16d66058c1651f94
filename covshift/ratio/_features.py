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

    More than 65,536 rows of a sample, and more than 2^20 distances, are thinned to evenly spaced rows.
    """
    X, X_target, s = sample.X, sample.X_target, sample.s
    centers = draw_centers(_thin(X, _CENTRE_ROWS), _thin(X_target, _CENTRE_ROWS), n_centers, where, rng)
    d = X.shape[1]
    middle, scale = pooled_scaling(X, X_target, s) if standardize else (np.zeros(d), np.ones(d))
    rows = _MEDIAN_DISTANCES // (2 * len(centers))
    few, few_target = ((_thin(a, rows) - middle) / scale for a in (X, X_target))
    scaled = (centers - middle) / scale
    median = median_bandwidth(few, few_target, scaled, None if s is None else _thin(s, rows))
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


def _thin(rows: np.ndarray, limit: int) -> np.ndarray:
    return rows[:: -(-len(rows) // max(limit, 1))]
