"""Exact minimisers of J_UB over small norm-bounded classes, many samples at once, from moments alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from covshift.experiments.theory._world import World

__all__ = [
    "Moments",
    "concatenate",
    "minimise_f",
    "minimise_g",
    "minimise_jointly",
    "objective",
    "population",
    "sample_moments",
]


_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Moments:
    """All that J_UB needs of a sample (or of the population); a leading axis for samples.

    l = factor (f - y)^2 makes mean(l psi_k) = factor (alpha'T_k alpha - 2 t_k'alpha + s_k), a quadratic in alpha.
    """

    T: np.ndarray  # (R, b_g, b_f, b_f) mean psi_k phi phi'
    t: np.ndarray  # (R, b_g, b_f)      mean psi_k y phi
    s: np.ndarray  # (R, b_g)           mean psi_k y^2
    H: np.ndarray  # (R, b_g, b_g)      mean psi psi'
    h: np.ndarray  # (R, b_g)           mean psi over the target
    factor: float
    C: float

    def losses(self, alpha: np.ndarray) -> np.ndarray:
        """u = mean(l psi), shape (R, b_g), for alpha (R, b_f)."""
        quadratic = np.einsum("ri,rkij,rj->rk", alpha, self.T, alpha, optimize=True)
        return self.factor * (quadratic - 2.0 * np.einsum("rki,ri->rk", self.t, alpha) + self.s)

    def repeat(self, times: int) -> Moments:
        return concatenate([self] * times)


def concatenate(parts: Sequence[Moments]) -> Moments:
    """Samples of several moments behind one another."""
    return Moments(
        T=np.concatenate([part.T for part in parts]),
        t=np.concatenate([part.t for part in parts]),
        s=np.concatenate([part.s for part in parts]),
        H=np.concatenate([part.H for part in parts]),
        h=np.concatenate([part.h for part in parts]),
        factor=parts[0].factor,
        C=parts[0].C,
    )


def sample_moments(world: World, n: int, draws: int, rng: np.random.Generator) -> Moments:
    """Moments of `draws` independent samples of n source and n target rows, a few samples in memory at a time."""
    C, blocks = _constant(world), []
    at_once = max(1, _ROWS_AT_ONCE // n)
    for start in range(0, draws, at_once):
        x, y, x_target = world.draw(n, min(at_once, draws - start), rng)
        p = np.full(x.shape, 1.0 / n)
        h = world.psi(x_target).mean(axis=1)
        blocks.append(_moments(world.phi(x), world.psi(x), y, y**2, h, p, world.factor, C))
    return concatenate(blocks)


@lru_cache
def _constant(world: World) -> float:
    """C = E_source[r^2]."""
    return population(world).C


def population(world: World) -> Moments:
    """The same by quadrature: expectations instead of means."""
    x, p = world.pair.quadrature()
    r, f0 = world.pair.ratio(x), world.f0(x)
    second = f0**2 + world.w**2 / 3.0
    Psi = world.psi(x)
    h = (p * r) @ Psi
    return _moments(
        world.phi(x)[None], Psi[None], f0[None], second[None], h[None], p[None], world.factor, float(p @ r**2)
    )


def _moments(
    Phi: np.ndarray,
    Psi: np.ndarray,
    y: np.ndarray,
    y2: np.ndarray,
    h: np.ndarray,
    p: np.ndarray,
    factor: float,
    C: float,
) -> Moments:
    R, n, b_f = Phi.shape
    pPsi = np.swapaxes(p[..., None] * Psi, 1, 2)  # (R, b_g, n)
    pairs = (Phi[..., :, None] * Phi[..., None, :]).reshape(R, n, b_f * b_f)
    T = (pPsi @ pairs).reshape(R, Psi.shape[2], b_f, b_f)
    return Moments(T, pPsi @ (y[..., None] * Phi), (pPsi @ y2[..., None])[..., 0], pPsi @ Psi, h, factor, C)


def objective(moments: Moments, alpha: np.ndarray, beta: np.ndarray, m: float = 1.0) -> np.ndarray:
    """J_UB, C included, shape (R,)."""
    first = np.einsum("rk,rk->r", beta, moments.losses(alpha))
    second = np.einsum("rk,rkl,rl->r", beta, moments.H, beta) - 2.0 * np.einsum("rk,rk->r", beta, moments.h)
    return first**2 + m**2 * (second + moments.C)


def minimise_g(moments: Moments, u: np.ndarray, radius: float, m: float = 1.0) -> np.ndarray:
    """argmin over beta >= 0, ||beta|| <= radius of beta'(H + u u'/m^2) beta - 2 h'beta, exactly.

    Every support is solved and the best feasible one taken; where the ball binds, its multiplier is bisected.
    """
    A = moments.H + u[:, :, None] * u[:, None, :] / m**2
    beta = _nonnegative(A, moments.h)
    outside = np.linalg.norm(beta, axis=1) > radius
    if outside.any():
        A, h = A[outside], moments.h[outside]
        low, high = np.zeros(len(A)), np.linalg.norm(h, axis=1) / radius
        eye = np.eye(A.shape[1])
        for _ in range(60):
            middle = 0.5 * (low + high)
            too_long = np.linalg.norm(_nonnegative(A + middle[:, None, None] * eye, h), axis=1) > radius
            low, high = np.where(too_long, middle, low), np.where(too_long, high, middle)
        beta[outside] = _nonnegative(A + high[:, None, None] * eye, h)
    return beta


def _nonnegative(A: np.ndarray, h: np.ndarray) -> np.ndarray:
    """argmin over beta >= 0 of beta'A beta - 2 h'beta for many small A: the best feasible support."""
    b = h.shape[1]
    supports = np.array(list(product([0.0, 1.0], repeat=b)))[1:]  # (2^b - 1, b)
    both = supports[:, :, None] * supports[:, None, :]
    masked = A[:, None] * both + np.eye(b) * (1.0 - supports)[:, :, None]
    beta = np.linalg.solve(masked, (h[:, None] * supports)[..., None])[..., 0]
    value = -np.einsum("rsk,rk->rs", beta, h)  # the minimum on the support
    value[(beta < 0).any(axis=2)] = 0.0  # infeasible: no better than beta = 0
    best = np.argmin(value, axis=1)
    chosen = np.take_along_axis(beta, best[:, None, None], axis=1)[:, 0]
    return np.where((np.take_along_axis(value, best[:, None], axis=1) < 0), chosen, 0.0)


def minimise_f(moments: Moments, beta: np.ndarray, radius: float) -> np.ndarray:
    """argmin over ||alpha|| <= radius of mean(g l), exactly: one eigendecomposition, the multiplier bisected."""
    P = np.einsum("rk,rkij->rij", beta, moments.T)
    eigenvalues, V = np.linalg.eigh(P)
    c = np.einsum("rij,ri->rj", V, np.einsum("rk,rki->ri", beta, moments.t))
    eigenvalues = np.maximum(eigenvalues, 1e-14)
    low = np.zeros(len(c))
    high = np.where(np.linalg.norm(c / eigenvalues, axis=1) > radius, np.linalg.norm(c, axis=1) / radius, 0.0)
    for _ in range(60 if high.any() else 0):
        middle = 0.5 * (low + high)
        too_long = np.linalg.norm(c / (eigenvalues + middle[:, None]), axis=1) > radius
        low, high = np.where(too_long, middle, low), np.where(too_long, high, middle)
    return np.einsum("rij,rj->ri", V, c / (eigenvalues + high[:, None]))


def minimise_jointly(
    moments: Moments,
    world: World,
    rng: np.random.Generator,
    starts: int = 4,
    rounds: int = 400,
) -> tuple[np.ndarray, np.ndarray]:
    """(alpha, beta) of the smallest J_UB over F x G+, found by exact alternation from several starts.

    The first start is the two-step solution (loss-free g, then f), the others random f. Both steps are exact, so J
    never rises; a start stops counting when its J no longer falls.
    """
    R, b_f = moments.t.shape[0], moments.t.shape[2]
    beta = minimise_g(moments, np.zeros_like(moments.h), world.radius_g)
    alpha = [minimise_f(moments, beta, world.radius_f)]
    alpha += [world.radius_f / np.sqrt(b_f) * rng.uniform(-1, 1, (R, b_f)) for _ in range(starts - 1)]
    tiled, alphas = moments.repeat(starts), np.concatenate(alpha)
    J = np.full(len(alphas), np.inf)
    for _ in range(rounds):
        betas = minimise_g(tiled, tiled.losses(alphas), world.radius_g)
        alphas = minimise_f(tiled, betas, world.radius_f)
        J, before = objective(tiled, alphas, betas), J
        if np.max(before - J) <= 1e-13:
            break
    best = np.argmin(J.reshape(starts, R), axis=0) * R + np.arange(R)
    return alphas[best], betas[best]
