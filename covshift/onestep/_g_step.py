"""The g-step: uLSIF's system plus one rank-one term, for all candidates at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from covshift.blocks import sum_over_blocks
from covshift.onestep._objective import objective
from covshift.ratio._least_squares import Factor


def importance(Psi: np.ndarray, beta: np.ndarray, shrink: str) -> np.ndarray:
    """g at rows, never negative.

    shrink="zero": g = beta'psi, where clipping beta was the projection (Algorithm 1, line 7).
    shrink="one":  g = max(1 + beta'psi, 0), where beta keeps its sign and rows are clipped.
    """
    g = Psi @ beta
    if shrink == "one":
        g += 1.0
        np.maximum(g, 0.0, out=g)
    return g


@dataclass(frozen=True)
class GSystem:
    """The linear system of g for one bandwidth: H = mean_s psi psi' (factored), p = mean_s psi, h = mean_t psi."""

    factor: Factor
    h: np.ndarray  # (b,)
    p: np.ndarray  # (b,)

    def step(self, u: np.ndarray, lbar: np.ndarray, reg_g: np.ndarray, shrink: str, m: float) -> np.ndarray:
        """beta of all candidates before clipping, shape (b, c)  (Algorithm 1, line 6); A = H + (reg_g / m^2) I.

        shrink="zero": (A + u u'/m^2) beta = h
        shrink="one":  (A + u u'/m^2) beta = h - p - (lbar/m^2) u

        by Sherman-Morrison on the one factor of H. Infinite reg_g gives beta = 0: with shrink="one" that is g = 1,
        the unweighted learner.

        Parameters
        ----------
        u, lbar : mean_s l psi, shape (b, c), and mean_s l, shape (c,), at the current f; zeros: the loss-free g
        reg_g : (c,)
        """
        one = 1.0 if shrink == "one" else 0.0
        V, D = self.factor.V, 1.0 / (self.factor.e[:, None] + reg_g / m**2)  # A^-1 = V D V'
        a = D * (V.T @ (self.h - one * self.p))[:, None]  # V'A^-1 (h - p)
        if not u.any():
            return V @ a
        u = V.T @ u
        v = D * u  # V'A^-1 u
        numerator = one * lbar + np.einsum("bc,bc->c", u, a)
        a -= v * (numerator / (m**2 + np.einsum("bc,bc->c", u, v)))
        return V @ a

    def loss_free(self, reg_g: np.ndarray, m: float) -> np.ndarray:
        """uLSIF's clipped beta for each regularisation, shape (b, c)."""
        return np.maximum(self.factor.solve(self.h, reg_g / m**2), 0.0)


@dataclass(frozen=True)
class GRows:
    """Rows as g sees them: one entry of `Psi`, `Psi_target` and `h` = mean_t psi a bandwidth_g.

    Candidates carry the index of their bandwidth in a sorted array `which`, so that each bandwidth is one slice.
    `h` is exact; the mean of a g that is clipped at rows needs rows: `Psi_target` may be an even thinning.
    """

    Psi: list[np.ndarray]  # (n, b) source rows
    Psi_target: list[np.ndarray]  # (n_t, b)
    h: list[np.ndarray]  # (b,)
    s: np.ndarray | None  # frequencies of the source rows

    @property
    def n(self) -> float:
        """Number of source rows, counted by frequency."""
        return float(len(self.Psi[0])) if self.s is None else float(self.s.sum())

    def weights(self, beta: np.ndarray, which: np.ndarray, shrink: str) -> np.ndarray:
        """g at the source rows, shape (n, c)."""
        parts = [importance(self.Psi[j], beta[:, at], shrink) for j, at in slices(which)]
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def loss_moments(self, l: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """u = mean_s l psi, shape (b, c), and lbar = mean_s l, shape (c,)."""
        u = np.empty((self.Psi[0].shape[1], l.shape[1]))
        lbar = np.empty(l.shape[1])

        def sums(Psi: np.ndarray, l: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
            sl = l if s is None else l * s[:, None]
            return Psi.T @ sl, sl.sum(axis=0)

        for j, at in slices(which):
            part = sum_over_blocks(sums, self.Psi[j], l[:, at], self.s, floats_per_row=2 * l.shape[1])
            u[:, at], lbar[at] = part
        return u / self.n, lbar / self.n

    def target_mean(self, beta: np.ndarray, which: np.ndarray, shrink: str) -> np.ndarray:
        """mean_t g, shape (c,); linear in beta where rows are not clipped."""
        out = np.empty(beta.shape[1])

        def sums(Psi: np.ndarray, beta: np.ndarray) -> np.ndarray:
            return importance(Psi, beta, shrink).sum(axis=0)

        for j, at in slices(which):
            if shrink == "zero":
                out[at] = self.h[j] @ beta[:, at]
                continue
            part = beta[:, at]
            total = sum_over_blocks(
                lambda Psi, part=part: sums(Psi, part), self.Psi_target[j], floats_per_row=part.shape[1]
            )
            out[at] = total / len(self.Psi_target[j])
        return out

    def bound(self, W: np.ndarray, l: np.ndarray, gt: np.ndarray, m: float) -> np.ndarray:
        """The objective of all candidates on these rows; W is g at the source rows, gt its mean on the target."""

        def sums(W: np.ndarray, l: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
            sW = W if s is None else W * s[:, None]
            return np.einsum("ic,ic->c", sW, l), np.einsum("ic,ic->c", sW, W)

        lg, gg = sum_over_blocks(sums, W, l, self.s, floats_per_row=3 * W.shape[1])
        return objective(lg / self.n, gg / self.n, gt, m=m)


def slices(which: np.ndarray) -> Iterator[tuple[int, slice]]:
    """(bandwidth's index, its candidates) for sorted `which`."""
    bounds = [0, *(np.flatnonzero(which[1:] != which[:-1]) + 1).tolist(), len(which)]
    for start, stop in pairwise(bounds):
        yield int(which[start]), slice(start, stop)


def step_all(
    systems: list[GSystem],
    u: np.ndarray,
    lbar: np.ndarray,
    reg_g: np.ndarray,
    which: np.ndarray,
    shrink: str,
    m: float,
) -> np.ndarray:
    """`GSystem.step` for candidates of several bandwidths, shape (b, c)."""
    parts = [systems[j].step(u[:, at], lbar[at], reg_g[at], shrink, m) for j, at in slices(which)]
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def take_rows(rows: GRows, source: np.ndarray, target: np.ndarray, h: list[np.ndarray]) -> GRows:
    """The rows of one side of a fold; `h` is the mean of that side's target features."""
    s = None if rows.s is None else rows.s[source]
    return GRows([P[source] for P in rows.Psi], [P[target] for P in rows.Psi_target], h, s)


def make_systems(rows: GRows) -> list[GSystem]:
    """Factor the systems of all bandwidths of these rows."""
    systems = []
    for Psi, h in zip(rows.Psi, rows.h, strict=True):

        def sums(Psi: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
            sPsi = Psi if s is None else Psi * s[:, None]
            return sPsi.T @ Psi, sPsi.sum(axis=0)

        H, p = sum_over_blocks(sums, Psi, rows.s, floats_per_row=2 * Psi.shape[1])
        systems.append(GSystem(Factor.of(H / rows.n), h, p / rows.n))
    return systems
