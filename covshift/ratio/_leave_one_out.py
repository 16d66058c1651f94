"""Exact leave-one-out scores of (R)uLSIF for a whole grid, by low-rank downdates of one factor a bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from covshift.basis import Basis
from covshift.blocks import sum_over_blocks
from covshift.ratio._least_squares import Factor, moments

# Matrices (rows of a block) x b that a block works on at once.
_MATRICES = 6


@dataclass(frozen=True)
class _System:
    """(M + reg I) beta = h0 before a row is taken out, rotated to the eigenvectors of M; one bandwidth."""

    V: np.ndarray  # (b, b)
    h0: np.ndarray  # (b,) = V'h0
    D: np.ndarray  # (b, n_reg) = 1 / (e + reg)
    back: np.ndarray  # (n_reg, b, b) = diag(D_reg) V', from rotated right-hand sides to beta

    @classmethod
    def of(cls, M: np.ndarray, h0: np.ndarray, regs: np.ndarray) -> _System:
        factor = Factor.of(M)
        D = 1.0 / (factor.e[:, None] + regs)
        return cls(factor.V, factor.V.T @ h0, D, D.T[:, :, None] * factor.V.T)


class _Workspace:
    """The two large arrays of a block, kept from block to block: fresh memory costs more than the sums on it."""

    def __init__(self) -> None:
        self._arrays = np.empty((2, 0))

    def arrays(self, shape: tuple[int, ...]) -> np.ndarray:
        """Two arrays of this shape with whatever they last held."""
        if self._arrays.shape[1:] != shape:
            self._arrays = np.empty((2, *shape))
        return self._arrays


@dataclass(frozen=True)
class _Removal:
    """Rows psi that leave, each on its own: M loses c psi psi' and h0 loses tau psi."""

    rotated: np.ndarray  # (n, b) = Psi V
    c: Any  # a number, or (n, 1)
    tau: float


def leave_one_out_scores(
    basis: Basis,
    X: np.ndarray,
    X_target: np.ndarray,
    s: np.ndarray | None,
    bandwidths: np.ndarray,
    regs: np.ndarray,
    relative_alpha: float = 0.0,
    kind: str = "single",
) -> np.ndarray:
    """Scores (n_bandwidths, n_regs), smaller is better; every refit exact, none carried out.

    With a = relative_alpha, H_s = mean_s psi psi', H_t = mean_t psi psi', h = mean_t psi and every refit clipped at
    zero:

    kind="single"
        1/n_s sum_i (1-a)/2 g_-i(x_i)^2 + 1/n_t sum_j [a/2 g_-j(t_j)^2 - g_-j(t_j)],
        where -i leaves one source row out of H_s and -j one target row out of H_t and h. No row has a partner, so
        order does not matter. A source row of frequency s_i is s_i copies of which one is left out (all of it where
        s_i < 1).
    kind="pairs"
        1/n sum_i (1-a)/2 g_-i(x_i)^2 + a/2 g_-i(t_i)^2 - g_-i(t_i), n = min(n_s, n_t), where -i leaves out source
        row i and target row i at once (Kanamori et al.). Surplus rows stay in every fit; the score depends on order.

    Taking rows u_q out of A = M + reg I with factors c_q leaves A - sum c_q u_q u_q', and (Woodbury)
    beta = A^-1 (h_left + sum k_q u_q), k = (I - C G)^-1 C U'A^-1 h_left, G = U'A^-1 U. In M's eigenvectors A^-1 is
    diagonal, so G costs one product for all regs, and one b x b product a (bandwidth, reg) gives beta of every row.
    """
    a = relative_alpha
    of_source = moments(basis, X, bandwidths, s)
    of_target = moments(basis, X_target, bandwidths, second=a > 0)
    n_s, n_t = of_source.n, of_target.n
    _check_size(n_s, n_t, kind, s)
    H_s, h = of_source.second_moment, of_target.mean
    H_t = of_target.second_moment if a > 0 else np.zeros_like(H_s)
    c_s, c_t, tau = (1 - a) / (n_s - 1), a / (n_t - 1), 1 / (n_t - 1)
    source_left, target_left, h_left = n_s * c_s * H_s, n_t * c_t * H_t, n_t * tau * h

    def pair(system: _System, work: _Workspace, P: np.ndarray, Q: np.ndarray, _: None) -> np.ndarray:
        beta = _refits(system, [_Removal(P @ system.V, c_s, 0.0), _Removal(Q @ system.V, c_t, tau)], work)
        return (1 - a) / 2 * _sum_of_squares(beta, P, None) + _target_term(beta, Q, a)

    def source(system: _System, work: _Workspace, P: np.ndarray, s: np.ndarray | None) -> np.ndarray:
        c = c_s if s is None else c_s * np.minimum(s, 1.0)[:, None]
        beta = _refits(system, [_Removal(P @ system.V, c, 0.0)], work)
        return (1 - a) / 2 * _sum_of_squares(beta, P, s)

    def target(system: _System, work: _Workspace, Q: np.ndarray, _: None) -> np.ndarray:
        return _target_term(_refits(system, [_Removal(Q @ system.V, c_t, tau)], work), Q, a)

    if kind == "pairs":
        n, systems = min(len(X), len(X_target)), _systems(source_left + target_left, h_left, regs)
        return _sum_scores(pair, basis, bandwidths, systems, (X[:n], X_target[:n]), None) / n
    systems = _systems(source_left + a * H_t, h, regs)
    of_sources = _sum_scores(source, basis, bandwidths, systems, (X,), s)
    systems = _systems((1 - a) * H_s + target_left, h_left, regs)
    of_targets = _sum_scores(target, basis, bandwidths, systems, (X_target,), None)
    return of_sources / n_s + of_targets / n_t


def _sum_scores(
    score: Callable[..., np.ndarray],
    basis: Basis,
    bandwidths: np.ndarray,
    systems: list[_System],
    samples: tuple[np.ndarray, ...],
    s: np.ndarray | None,
) -> np.ndarray:
    """sum over rows of score(system, work, features of each sample, s), (n_bandwidths, n_regs)."""
    work, n_reg = _Workspace(), systems[0].D.shape[1]

    def block(s: np.ndarray | None, *rows: np.ndarray) -> np.ndarray:
        prepared, J = [basis.prepare(part) for part in rows], []
        for bandwidth, system in zip(bandwidths, systems, strict=True):
            J.append(score(system, work, *(basis.features(part, bandwidth) for part in prepared), s))
        return np.array(J)

    width = max(_MATRICES, 2 * n_reg // 3) * basis.n_features  # the workspace is 6 MiB, however many regs
    return sum_over_blocks(block, s, *samples, floats_per_row=width)


def _check_size(n_s: float, n_t: float, kind: str, s: np.ndarray | None) -> None:
    for name, n in (("X", n_s), ("X_target", n_t)):
        if n <= 1:
            raise ValueError(
                f"{name} has {n:g} row(s), frequencies counted: leaving one out needs more than 1. Give more rows, "
                "or one bandwidth and one reg, which need no search"
            )
    if kind == "pairs" and s is not None and not np.all(s == 1):
        raise ValueError(
            "loo='pairs' with sample_weight other than 0 and 1: pairs are made by position, which copies would "
            "change. Use loo='single', which takes frequencies, or cv=5"
        )


def _systems(M: np.ndarray, h0: np.ndarray, regs: np.ndarray) -> list[_System]:
    return [_System.of(*parts, regs) for parts in zip(M, h0, strict=True)]


def _sum_of_squares(beta: np.ndarray, Psi: np.ndarray, s: np.ndarray | None) -> np.ndarray:
    """sum_i s_i g_i^2, g_i = beta_i'psi_i, for every reg: beta (n_reg, n, b)."""
    g = np.einsum("rij,ij->ri", beta, Psi)
    return np.einsum("ri,ri->r", g, g if s is None else s * g)


def _target_term(beta: np.ndarray, Psi: np.ndarray, a: float) -> np.ndarray:
    """sum_j a/2 g_j^2 - g_j for every reg; the sum of g alone is one product of everything with everything."""
    total = beta.reshape(len(beta), -1) @ Psi.ravel()
    return -total if a == 0 else a / 2 * _sum_of_squares(beta, Psi, None) - total


def _refits(system: _System, removals: list[_Removal], work: _Workspace) -> np.ndarray:
    """beta (n_reg, n, b), clipped; row i from the fit without the removals' rows i. Valid until the next call."""
    base = system.h0 - sum(q.tau * q.rotated for q in removals if q.tau)
    downdated = [q for q in removals if np.any(q.c)]
    left, beta = work.arrays((len(system.back), *removals[0].rotated.shape))
    current = np.broadcast_to(base, removals[0].rotated.shape)
    for q, k in zip(downdated, _coefficients(system, base, downdated), strict=True):
        np.multiply(k.T[:, :, None], q.rotated, out=beta)
        current = np.add(current, beta, out=left)
    np.matmul(current, system.back, out=beta)
    return np.maximum(beta, np.zeros(beta.shape[-1]), out=beta)  # four times faster than against the number 0.0


def _coefficients(system: _System, base: np.ndarray, downdated: list[_Removal]) -> list[np.ndarray]:
    """k = (I - C G)^-1 C U'A^-1 h_left, for all rows and regs: one (n, n_reg) a removal; base is V'h_left."""
    if not downdated:
        return []
    if len(downdated) == 1:
        (p,) = downdated
        return [p.c * ((p.rotated * base) @ system.D) / (1 - p.c * ((p.rotated * p.rotated) @ system.D))]
    p, q = downdated
    G_pp, G_pq, G_qq, v_p, v_q = (
        (left * right) @ system.D
        for left, right in (
            (p.rotated, p.rotated),
            (p.rotated, q.rotated),
            (q.rotated, q.rotated),
            (p.rotated, base),
            (q.rotated, base),
        )
    )
    free_p, free_q, v_p, v_q = 1 - p.c * G_pp, 1 - q.c * G_qq, p.c * v_p, q.c * v_q
    determinant = free_p * free_q - p.c * q.c * G_pq * G_pq
    return [(v_p * free_q + p.c * G_pq * v_q) / determinant, (v_q * free_p + q.c * G_pq * v_p) / determinant]
