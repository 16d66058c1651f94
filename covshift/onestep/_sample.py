"""What lies behind the door: clean rows, labels, frequencies and a basis, and how they look to f and to g."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covshift._split import Fold
from covshift.basis import Basis
from covshift.blocks import sum_over_blocks
from covshift.onestep._f_step import FRows
from covshift.onestep._g_step import GRows, take_rows
from covshift.ratio._least_squares import feature_moments

# Directions of the basis whose squared length is below this share of the longest are rounding: they move a
# prediction by less than the solution of the normal equations is accurate.
_RANK_TOLERANCE = 1e-15
_MAX_TARGET_ROWS = 1 << 17


@dataclass(frozen=True)
class Sample:
    """Source rows X with labels Y and frequencies s, target rows, and the basis that both models share."""

    X: np.ndarray  # (n, d), already in the basis' units
    Y: np.ndarray  # (n, K)
    s: np.ndarray | None  # (n,)
    X_target: np.ndarray  # (n_t, d)
    basis: Basis
    intercept: bool

    @property
    def n(self) -> float:
        """Number of source rows, counted by frequency."""
        return float(len(self.X)) if self.s is None else float(self.s.sum())


@dataclass(frozen=True)
class FBasis:
    """f's features at all rows for one bandwidth_f, rotated.

    A rotation of the basis, Phi R with R'R = I, leaves |alpha|^2 and thus ridge as they are. Gaussians in few
    dimensions are numerically of low rank; the directions without length are dropped, and the f-step shrinks with
    them from b to what is left.
    """

    R: np.ndarray  # (b, r)
    Phi: np.ndarray  # (n, r [+ 1])
    Phi_target: np.ndarray  # (n_t, r [+ 1])
    penalty: np.ndarray  # (r [+ 1],)

    @classmethod
    def of(cls, sample: Sample, prepared: np.ndarray, prepared_target: np.ndarray, bandwidth: float) -> FBasis:
        Phi = sample.basis.features(prepared, bandwidth)
        Phi_target = sample.basis.features(prepared_target, bandwidth)
        gram = sum_over_blocks(lambda P: P.T @ P, Phi, floats_per_row=2 * Phi.shape[1])
        e, V = np.linalg.eigh(gram)
        R = V[:, e > _RANK_TOLERANCE * max(e[-1], np.finfo(float).tiny)]
        Phi, Phi_target, penalty = Phi @ R, Phi_target @ R, np.ones(R.shape[1])
        if sample.intercept:
            Phi, Phi_target = _with_ones(Phi), _with_ones(Phi_target)
            penalty = np.append(penalty, 0.0)
        return cls(R, Phi, Phi_target, penalty)

    def rows(self, sample: Sample, source: np.ndarray | None = None) -> FRows:
        """Source rows for the f-step, all or those of one side of a fold."""
        if source is None:
            return FRows(self.Phi, sample.Y, self.penalty, sample.s)
        s = None if sample.s is None else sample.s[source]
        return FRows(self.Phi[source], sample.Y[source], self.penalty, s)

    def unrotate(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(coefficients on the centres (b, ...), intercepts (...)) from rotated ones (q, ...)."""
        r = self.R.shape[1]
        coef = np.tensordot(self.R, alpha[:r], axes=(1, 0))
        return coef, alpha[r] if len(alpha) > r else np.zeros(alpha.shape[1:])


@dataclass(frozen=True)
class Prepared:
    """A sample with everything that all candidates share: distances, and g's features for each bandwidth_g.

    Means of features over the target are exact. What needs target rows one by one (the mean of a g clipped at rows,
    the variance of fold models) sees at most 2^17 of them, over all bandwidths_g, evenly thinned: `kept` are their
    numbers.
    """

    sample: Sample
    bandwidths_g: tuple[float, ...]
    kept: np.ndarray  # (n_kept,)
    rows: np.ndarray
    rows_target: np.ndarray  # of the kept target rows
    g: GRows

    @classmethod
    def of(cls, sample: Sample, bandwidths_g: tuple[float, ...]) -> Prepared:
        basis, n_target = sample.basis, len(sample.X_target)
        kept = np.arange(0, n_target, -(-n_target // max(1, _MAX_TARGET_ROWS // len(bandwidths_g))))
        rows, rows_target = basis.prepare(sample.X), basis.prepare(sample.X_target[kept])
        g = GRows(
            [basis.features(rows, sigma) for sigma in bandwidths_g],
            [basis.features(rows_target, sigma) for sigma in bandwidths_g],
            [feature_moments(basis, sample.X_target, sigma, second=False)[1] for sigma in bandwidths_g],
            sample.s,
        )
        return cls(sample, bandwidths_g, kept, rows, rows_target, g)

    def f(self, bandwidth_f: float) -> FBasis:
        """f's features for one bandwidth."""
        return FBasis.of(self.sample, self.rows, self.rows_target, bandwidth_f)

    def fold(self, fold: Fold) -> tuple[GRows, GRows]:
        """(training side, held-out side) of a fold as g sees them."""
        X_target, basis = self.sample.X_target, self.sample.basis
        sides = []
        for source, target in ((fold.train, fold.target_train), (fold.test, fold.target_test)):
            kept = np.flatnonzero(np.isin(self.kept, target, assume_unique=True))
            h = [feature_moments(basis, X_target[target], sigma, second=False)[1] for sigma in self.bandwidths_g]
            sides.append(take_rows(self.g, source, kept, h))
        return sides[0], sides[1]


def check_folds(folds: list[Fold], s: np.ndarray | None) -> None:
    """Every fold needs rows with weight on both sides, else its means do not exist."""
    for k, fold in enumerate(folds):
        for side, rows in (("training", fold.train), ("held-out", fold.test)):
            if not len(rows) or (s is not None and not s[rows].any()):
                raise ValueError(f"cv: the {side} side of fold {k} has no source rows with positive sample_weight")


def _with_ones(Phi: np.ndarray) -> np.ndarray:
    return np.hstack([Phi, np.ones((len(Phi), 1))])
