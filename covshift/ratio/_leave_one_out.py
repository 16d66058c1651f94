"""Exact leave-one-out scores of (R)uLSIF for a whole grid, by low-rank downdates of one factor a bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from covshift.basis import Basis
from covshift.blocks import sum_over_blocks
from covshift.ratio._least_squares import Factor, moments

# Matrices (rows of a block) x b that a block works on at once.
_WIDTH = 6


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
    if kind == "pairs":
        n = min(len(X), len(X_target))
        systems = _systems(source_left + target_left, h_left, regs)
        score = partial(_pair_scores, basis, bandwidths, systems, a, c_s, c_t, tau)
        return sum_over_blocks(score, X[:n], X_target[:n], floats_per_row=_WIDTH * basis.n_features) / n
    sources = partial(_source_scores, basis, bandwidths, _systems(source_left + a * H_t, h, regs), a, c_s)
    targets = partial(
        _target_scores, basis, bandwidths, _systems((1 - a) * H_s + target_left, h_left, regs), a, c_t, tau
    )
    of_sources = sum_over_blocks(sources, X, s, floats_per_row=_WIDTH * basis.n_features)
    of_targets = sum_over_blocks(targets, X_target, floats_per_row=_WIDTH * basis.n_features)
    return of_sources / n_s + of_targets / n_t


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


def _source_scores(
    basis: Basis,
    bandwidths: np.ndarray,
    systems: list[_System],
    a: float,
    c: float,
    X: np.ndarray,
    s: np.ndarray | None,
) -> np.ndarray:
    """sum_i s_i (1-a)/2 g_-i(x_i)^2 over a block of source rows, (n_bandwidths, n_regs)."""
    J = np.empty((len(bandwidths), systems[0].D.shape[1]))
    prepared = basis.prepare(X)
    c_row = c if s is None else c * np.minimum(s, 1.0)[:, None]
    for k, (bandwidth, system) in enumerate(zip(bandwidths, systems, strict=True)):
        Psi = basis.features(prepared, bandwidth)
        for r, beta in enumerate(_refits(system, [_Removal(Psi @ system.V, c_row, 0.0)])):
            g = _row_products(beta, Psi)
            J[k, r] = (1 - a) / 2 * (g @ g if s is None else g @ (s * g))
    return J


def _target_scores(
    basis: Basis,
    bandwidths: np.ndarray,
    systems: list[_System],
    a: float,
    c: float,
    tau: float,
    T: np.ndarray,
) -> np.ndarray:
    """sum_j a/2 g_-j(t_j)^2 - g_-j(t_j) over a block of target rows, (n_bandwidths, n_regs)."""
    J = np.empty((len(bandwidths), systems[0].D.shape[1]))
    prepared = basis.prepare(T)
    for k, (bandwidth, system) in enumerate(zip(bandwidths, systems, strict=True)):
        Psi = basis.features(prepared, bandwidth)
        for r, beta in enumerate(_refits(system, [_Removal(Psi @ system.V, c, tau)])):
            g = _row_products(beta, Psi)
            J[k, r] = a / 2 * (g @ g) - g.sum()
    return J


def _pair_scores(
    basis: Basis,
    bandwidths: np.ndarray,
    systems: list[_System],
    a: float,
    c_s: float,
    c_t: float,
    tau: float,
    X: np.ndarray,
    T: np.ndarray,
) -> np.ndarray:
    """sum_i (1-a)/2 g_-i(x_i)^2 + a/2 g_-i(t_i)^2 - g_-i(t_i) over a block of pairs, (n_bandwidths, n_regs)."""
    J = np.empty((len(bandwidths), systems[0].D.shape[1]))
    prepared, prepared_target = basis.prepare(X), basis.prepare(T)
    for k, (bandwidth, system) in enumerate(zip(bandwidths, systems, strict=True)):
        P, Q = basis.features(prepared, bandwidth), basis.features(prepared_target, bandwidth)
        removals = [_Removal(P @ system.V, c_s, 0.0), _Removal(Q @ system.V, c_t, tau)]
        for r, beta in enumerate(_refits(system, removals)):
            g, g_target = _row_products(beta, P), _row_products(beta, Q)
            J[k, r] = (1 - a) / 2 * (g @ g) + a / 2 * (g_target @ g_target) - g_target.sum()
    return J


def _row_products(beta: np.ndarray, Psi: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", beta, Psi)


def _refits(system: _System, removals: list[_Removal]) -> Iterator[np.ndarray]:
    """For every reg: beta (n, b), clipped, row i from the fit without the removals' rows i. One buffer, reused."""
    base = system.h0 - sum(q.tau * q.rotated for q in removals)
    downdated = [q for q in removals if np.any(q.c)]
    coefficients = _coefficients(system, removals, downdated)
    right, step, beta = (np.empty_like(base) for _ in range(3))
    for r, back in enumerate(system.back):
        right[...] = base
        for q, k in zip(downdated, coefficients, strict=True):
            right += np.multiply(q.rotated, k[:, r, None], out=step)
        np.matmul(right, back, out=beta)
        yield np.maximum(beta, 0.0, out=beta)


def _coefficients(system: _System, removals: list[_Removal], downdated: list[_Removal]) -> list[np.ndarray]:
    """k = (I - C G)^-1 C v, v = U'A^-1 (h0 - sum tau_q u_q), for all rows and regs: one (n, n_reg) a removal."""

    def inner(p: _Removal, q: _Removal) -> np.ndarray:
        return (p.rotated * q.rotated) @ system.D

    def against_h(p: _Removal) -> np.ndarray:
        return p.rotated @ (system.h0[:, None] * system.D) - sum(q.tau * inner(p, q) for q in removals if q.tau)

    if not downdated:
        return []
    if len(downdated) == 1:
        (p,) = downdated
        return [p.c * against_h(p) / (1 - p.c * inner(p, p))]
    p, q = downdated
    G = inner(p, q)
    free_p, free_q = 1 - p.c * inner(p, p), 1 - q.c * inner(q, q)
    v_p, v_q = p.c * against_h(p), q.c * against_h(q)
    determinant = free_p * free_q - p.c * q.c * G * G
    return [(v_p * free_q + p.c * G * v_q) / determinant, (v_q * free_p + q.c * G * v_p) / determinant]
