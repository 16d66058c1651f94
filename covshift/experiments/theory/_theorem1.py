"""Theorem 1 on random f and g, every loss with its factor, exact risks of a known pair of Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from covshift.experiments.rows import Row
from covshift.experiments.theory._world import Pair, gaussians
from covshift.losses import LOSSES, Loss, get_loss

__all__ = ["CASES", "G_KINDS", "theorem1_problem", "theorem1_rows"]

CASES = tuple((name, bounded) for name, loss in LOSSES.items() for bounded in loss().domination())
G_KINDS = ("any g", "g >= 0", "r - c lbar", "max(r - c lbar, 0)")
METRICS = ("draws", "violations", "smallest J over R^2 / 2", "E lbar^2 there")
ROWS = len(G_KINDS) * len(METRICS)
PAIR = Pair(1.0, 0.5, 2.0, 0.25)  # the paper's toy: C = E r^2 = 14.9
CENTERS = np.linspace(-1.0, 4.0, 11)
TOLERANCE = 1e-12  # rounding of the two sides, relative


@dataclass(frozen=True)
class Side:
    """Conditional losses given x of many f, (draws, points): of the bounded loss and of the dominating one."""

    lbar: np.ndarray
    lbar_ub: np.ndarray


def _random_functions(rng: np.random.Generator, B: np.ndarray, draws: int, low: float, high: float) -> np.ndarray:
    """Gaussian expansions with sizes spread evenly in the logarithm, (draws, points)."""
    size = 10.0 ** rng.uniform(low, high, (draws, 1))
    return size * (rng.standard_normal((draws, B.shape[1])) @ B.T)


def _regression(
    loss: Loss, bounded: Loss, factor: float, B: np.ndarray, draws: int, rng: np.random.Generator
) -> Side:
    """y = f0(x) + {-w, 0, w} with a third each; f from almost exact to far beyond every scale of the loss."""
    residual = _random_functions(rng, B, draws, -2.0, 2.5)
    noise = 10.0 ** rng.uniform(-2.0, 1.0, (draws, 1)) * np.array([-1.0, 0.0, 1.0])
    r = residual[:, :, None] + noise[:, None, :]
    return Side(bounded.value(r, 0.0).mean(axis=2), factor * loss.value(r, 0.0).mean(axis=2))


def _binary(loss: Loss, bounded: Loss, factor: float, B: np.ndarray, draws: int, rng: np.random.Generator) -> Side:
    """P(y = 1 | x) logistic in a random function; scores from near zero to far out."""
    f = _random_functions(rng, B, draws, -2.0, 1.5)
    plus = 1.0 / (1.0 + np.exp(-np.clip(_random_functions(rng, B, draws, -1.0, 1.5), -50, 50)))
    sides = [plus * one.value(f, 1.0) + (1.0 - plus) * one.value(f, -1.0) for one in (bounded, loss)]
    return Side(sides[0], factor * sides[1])


def _multiclass(
    loss: Loss, bounded: Loss, factor: float, B: np.ndarray, draws: int, rng: np.random.Generator
) -> Side:
    """Three classes; the bounded loss is an argmax that is not y's (a tie is an error)."""
    points, K = len(B), 3
    F = np.stack([_random_functions(rng, B, draws, -2.0, 1.5) for _ in range(K)], axis=2)
    odds = np.exp(np.stack([np.clip(_random_functions(rng, B, draws, -1, 1), -30, 30) for _ in range(K)], axis=2))
    P = odds / odds.sum(axis=2, keepdims=True)
    flat = F.reshape(-1, K)
    lbar, lbar_ub = np.zeros((draws, points)), np.zeros((draws, points))
    for y in range(K):
        wrong = np.delete(F, y, axis=2).max(axis=2) >= F[:, :, y]
        value = loss.value(flat, np.full(len(flat), y)).reshape(draws, points)
        lbar += P[:, :, y] * wrong
        lbar_ub += P[:, :, y] * factor * value
    return Side(lbar, lbar_ub)


SIDES: dict[str, Callable[..., Side]] = {
    "regression": _regression,
    "classification": _binary,
    "multiclass": _multiclass,
}


def _weights(
    kind: str, lbar: np.ndarray, r: np.ndarray, p: np.ndarray, B: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """g (draws, points): random around r, or the minimiser of J over all g, or its non-negative part."""
    if kind in ("any g", "g >= 0"):
        g = r * 10.0 ** rng.uniform(-1.0, 0.3, (len(lbar), 1)) + _random_functions(rng, B, len(lbar), -2.0, 1.0)
    else:
        c = (lbar @ (p * r)) / (1.0 + lbar**2 @ p)
        g = r - c[:, None] * lbar
    return g if kind in ("any g", "r - c lbar") else np.maximum(g, 0.0)


def theorem1_problem(case: tuple[str, str]) -> str:
    return f"theorem 1/{case[0]} over {case[1]}"


def theorem1_rows(case: tuple[str, str], seed: int, draws: int) -> list[Row]:
    """1/2 R^2 <= J for any g, and J <= J_UB for g >= 0, m = 1, on `draws` random (f, g) of every kind of g."""
    begin = perf_counter()
    name, bounded_name = case
    rng = np.random.default_rng([3, CASES.index(case), seed])
    x, p = PAIR.quadrature(n=301, reach=8.0)
    r, B = PAIR.ratio(x), gaussians(x, CENTERS, 0.5)
    bounded = get_loss(bounded_name)
    loss = get_loss(name)
    task = "classification" if bounded_name == "zero_one" and loss.task != "multiclass" else loss.task
    worst = {kind: (np.inf, np.nan) for kind in G_KINDS}
    failures = dict.fromkeys(G_KINDS, 0)
    for start in range(0, draws, 200):
        side = SIDES[task](loss, bounded, loss.domination()[bounded_name], B, min(200, draws - start), rng)
        R = side.lbar @ (p * r)
        for kind in G_KINDS:
            g = _weights(kind, side.lbar, r, p, B, rng)
            second = (g - r) ** 2 @ p
            J = ((side.lbar * g) @ p) ** 2 + second
            broken = R**2 / 2.0 > J * (1.0 + TOLERANCE)
            if kind in ("g >= 0", "max(r - c lbar, 0)"):
                broken |= J > (((side.lbar_ub * g) @ p) ** 2 + second) * (1.0 + TOLERANCE)
            failures[kind] += int(broken.sum())
            ratio = 2.0 * J / np.maximum(R**2, 1e-300)
            k = int(np.argmin(ratio))
            worst[kind] = min(worst[kind], (float(ratio[k]), float(side.lbar[k] ** 2 @ p)))
    seconds = (perf_counter() - begin) / ROWS
    rows = []
    for kind in G_KINDS:
        values = (float(draws), float(failures[kind]), *worst[kind])
        rows += [
            Row(theorem1_problem(case), kind, seed, metric, value, seconds, {"n": len(x)})
            for metric, value in zip(METRICS, values, strict=True)
        ]
    return rows
