"""What n buys: J_UB, the risk and the theorem's inequality against n; and the Remark, two-step against joint."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from covshift.experiments.rows import Row
from covshift.experiments.theory._joint import (
    Moments,
    concatenate,
    minimise_f,
    minimise_g,
    minimise_jointly,
    objective,
    population,
    sample_moments,
)
from covshift.experiments.theory._world import WORLDS, World, expected_tukey
from covshift.theory import generalization_bound

__all__ = ["SIZES", "constant_rows", "rate_rows", "rates", "remark_rows"]

SIZES = tuple(50 * 2**k for k in range(11))  # 50 ... 51,200
DELTA = 0.05
REMARK_N = 150
RATE_METRICS = ("J_UB - min J_UB", "R_UB - R_UB(f*)", "R")
REMARK_METRICS = ("J_hat", "J_UB", "R_UB", "R")
CONSTANT_METRICS = ("min J_UB", "R_UB(f*)", "R_UB(f_J)", "rate, printed", "rate, tight")


class Exact:
    """Everything of a world that needs no sample."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.moments = population(world)
        self.ratio_coefficients = np.array([[world.pair.bump[0], 0.0, 0.0, 0.0]])
        rng = np.random.default_rng([4, 0])
        self.alpha_J, self.beta_J = minimise_jointly(self.moments, world, rng, starts=32)
        self.alpha_star = minimise_f(self.moments, self.ratio_coefficients, world.radius_f)
        self.min_J = float(self.objective(self.alpha_J, self.beta_J)[0])
        self.R_UB_star = float(self.surrogate_risk(self.alpha_star)[0])

    def objective(self, alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
        return objective(self.moments.repeat(len(alpha)), alpha, beta)

    def surrogate_risk(self, alpha: np.ndarray) -> np.ndarray:
        """E_target of the dominating loss; J_UB(f, r) = R_UB^2."""
        u = self.moments.repeat(len(alpha)).losses(alpha)
        return u @ self.ratio_coefficients[0]

    def risk(self, alpha: np.ndarray) -> np.ndarray:
        """E_target of Tukey's loss."""
        x, p = self.world.pair.quadrature(n=601)
        return expected_tukey(self.world, x, alpha @ self.world.phi(x).T) @ (p * self.world.pair.ratio(x))


def rates(world: World, n: int, R_UB_star: float) -> dict[str, float]:
    """sqrt(2 (R_UB(f*)^2 + terms of Theorem 3)) - sqrt 2 R_UB(f*), for both sets of constants.

    The complexities are B sqrt(E ||phi||^2 / n), which bound the expected ones and not only those of one sample.
    """
    x, p = world.pair.quadrature()
    norms_f, norms_g = (world.phi(x) ** 2).sum(axis=1), (world.psi(x) ** 2).sum(axis=1)
    f_max = world.radius_f * np.sqrt(norms_f.max())
    reach = f_max + np.abs(world.f0(x)).max() + world.w
    shared = dict(
        M=max(1.0, world.factor * reach**2),
        L=2.0 * world.factor * reach,
        G=max(1.0, world.radius_g * float(np.sqrt(norms_g.max()))),
        R_f=world.radius_f * float(np.sqrt(p @ norms_f / n)),
        R_g_source=world.radius_g * float(np.sqrt(p @ norms_g / n)),
        R_g_target=world.radius_g * float(np.sqrt((p * world.pair.ratio(x)) @ norms_g / n)),
        n_source=n,
        n_target=n,
        delta=DELTA,
    )
    start = np.sqrt(2.0) * R_UB_star
    return {
        "rate, printed": float(np.sqrt(2.0 * generalization_bound(R_UB_star**2, **shared).value) - start),
        "rate, tight": float(np.sqrt(2.0 * generalization_bound(R_UB_star**2, **shared, tight=True).value) - start),
    }


def constant_rows(name: str, sizes: Sequence[int]) -> list[Row]:
    """Minima by quadrature, the floor, and the theorem's rate at every n."""
    begin = perf_counter()
    exact = Exact(WORLDS[name])
    rows = []
    for n in sizes:
        values = {
            "min J_UB": exact.min_J,
            "R_UB(f*)": exact.R_UB_star,
            "R_UB(f_J)": float(exact.surrogate_risk(exact.alpha_J)[0]),
            **rates(exact.world, n, exact.R_UB_star),
        }
        rows += [Row(f"constants/{name}", "quadrature", 0, k, v, 0.0, {"n": n}) for k, v in values.items()]
    seconds = (perf_counter() - begin) / len(rows)
    return [Row(r.problem, r.method, r.seed, r.metric, r.value, seconds, r.extra) for r in rows]


def rate_rows(name: str, seeds: Sequence[int], sizes: Sequence[int]) -> list[Row]:
    """The joint minimiser of J_hat on one fresh sample a seed at every n, judged exactly."""
    exact, rows = Exact(WORLDS[name]), []
    for n in sizes:
        begin = perf_counter()
        moments = _samples(exact.world, n, seeds, stream=5)
        alpha, beta = minimise_jointly(moments, exact.world, np.random.default_rng([6, n, seeds[0]]))
        values = (
            exact.objective(alpha, beta) - exact.min_J,
            exact.surrogate_risk(alpha) - exact.R_UB_star,
            exact.risk(alpha),
        )
        seconds = (perf_counter() - begin) / len(seeds) / len(values)
        for metric, column in zip(RATE_METRICS, values, strict=True):
            rows += [
                Row(f"rates/{name}", "joint", seed, metric, float(v), seconds, {"n": n})
                for seed, v in zip(seeds, column, strict=True)
            ]
    return rows


def remark_rows(name: str, seeds: Sequence[int], n: int = REMARK_N) -> list[Row]:
    """uLSIF then IWERM, and the joint minimiser, of the same J_hat on the same sample."""
    begin = perf_counter()
    exact = Exact(WORLDS[name])
    world = exact.world
    moments = _samples(world, n, seeds, stream=7)
    beta = minimise_g(moments, np.zeros_like(moments.h), world.radius_g)
    solutions = {
        "two-step": (minimise_f(moments, beta, world.radius_f), beta),
        "joint": minimise_jointly(moments, world, np.random.default_rng([8, seeds[0]]), starts=8),
    }
    numbers = []
    for method, (alpha, coefficients) in solutions.items():
        values = {
            "J_hat": objective(moments, alpha, coefficients),
            "J_UB": exact.objective(alpha, coefficients),
            "R_UB": exact.surrogate_risk(alpha),
            "R": exact.risk(alpha),
        }
        numbers += [(method, metric, column) for metric, column in values.items()]
    seconds = (perf_counter() - begin) / len(seeds) / len(numbers)
    return [
        Row(f"remark/{name}", method, seed, metric, float(v), seconds, {"n": n})
        for method, metric, column in numbers
        for seed, v in zip(seeds, column, strict=True)
    ]


def _samples(world: World, n: int, seeds: Sequence[int], stream: int) -> Moments:
    """One sample a seed, drawn from a stream of its own."""
    return concatenate([sample_moments(world, n, 1, np.random.default_rng([stream, n, seed])) for seed in seeds])
