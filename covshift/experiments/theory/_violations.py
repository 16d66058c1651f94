"""How often does the Lemma fail? Draws of S against delta, for a finite class with the exact maximum of J - J_hat."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from covshift.experiments.rows import Row
from covshift.experiments.theory._world import WORLDS, World
from covshift.theory import uniform_bound

__all__ = ["DELTAS", "PROBLEM", "violation_rows"]

PROBLEM = "violations"
DELTAS = (0.01, 0.05, 0.1, 0.2)
N = 100
CLASS_SEED = 11  # the class is fixed before any sample is drawn
METHODS = {"printed": False, "tight": True}
PER_DELTA = (
    "violations",
    "violations of a hundredth",
    "smallest bound over deviation",
    "median bound over deviation",
)
ROWS = len(METHODS) * (1 + len(DELTAS) * len(PER_DELTA))


@dataclass(frozen=True)
class FiniteClass:
    """20 f and 20 g, hence 400 pairs, each as coefficients; alphas (20, b_f), betas (20, b_g) >= 0."""

    world: World
    alphas: np.ndarray
    betas: np.ndarray

    def constants(self) -> dict[str, float]:
        """M, L, G over all x (a fine grid and 0.1 % on top) and all noise: of the class, not of its ball."""
        x, _ = self.world.pair.quadrature()
        reach = np.abs(self.world.phi(x) @ self.alphas.T - self.world.f0(x)[:, None]).max()
        reach = 1.001 * reach + self.world.w
        factor = self.world.factor
        G = 1.001 * float((self.world.psi(x) @ self.betas.T).max())
        return {"M": max(1.0, factor * reach**2), "L": 2.0 * factor * reach, "G": max(1.0, G)}


def finite_class(world: World) -> FiniteClass:
    rng = np.random.default_rng(CLASS_SEED)
    at_truth = np.array([0.8, -0.9, 1.1, -0.7])
    alphas = at_truth * rng.uniform(-0.2, 1.2, (20, 1)) + 0.1 * rng.standard_normal((20, 4))
    betas = rng.uniform(0.0, 1.0, (20, 4)) * np.array([world.pair.bump[0], 0.6, 0.6, 0.6])
    return FiniteClass(world, alphas, betas)


def complexities(members: FiniteClass, n: int, rng: np.random.Generator, draws: int = 4000) -> dict[str, float]:
    """Expected Rademacher complexities of the finite class over rows and signs, three standard errors added.

    F alone; G = G+ and -G+ (so the absolute value) on source and target rows.
    """
    world, pair = members.world, members.world.pair
    suprema: dict[str, list[np.ndarray]] = {"R_f": [], "R_g_source": [], "R_g_target": []}
    for _ in range(draws // 500):
        signs = 2.0 * rng.integers(0, 2, (500, 1, n)) - 1.0
        x = pair.mu_s + pair.sd_s * rng.standard_normal((500, n))
        x_target = pair.mu_t + pair.sd_t * rng.standard_normal((500, n))
        of_f = (signs @ (world.phi(x) @ members.alphas.T))[:, 0] / n
        suprema["R_f"].append(of_f.max(axis=1))
        for name, rows in (("R_g_source", x), ("R_g_target", x_target)):
            of_g = (signs @ (world.psi(rows) @ members.betas.T))[:, 0] / n
            suprema[name].append(np.abs(of_g).max(axis=1))
    out = {}
    for name, parts in suprema.items():
        values = np.concatenate(parts)
        out[name] = float(values.mean() + 3.0 * values.std() / np.sqrt(len(values)))
    return out


def exact_objective(members: FiniteClass) -> np.ndarray:
    """J_UB - m^2 C of all pairs (20, 20) by quadrature."""
    world = members.world
    x, p = world.pair.quadrature()
    F, G = world.phi(x) @ members.alphas.T, world.psi(x) @ members.betas.T
    lbar = world.factor * ((F - world.f0(x)[:, None]) ** 2 + world.w**2 / 3.0)
    first = lbar.T @ (p[:, None] * G)
    return first**2 + (p @ G**2 - 2.0 * (p * world.pair.ratio(x)) @ G)


def largest_deviations(members: FiniteClass, n: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """max over the class of J_UB - J_hat, one value a draw of S."""
    world, exact, out = members.world, exact_objective(members), []
    for start in range(0, draws, 100):
        x, y, x_target = world.draw(n, min(100, draws - start), rng)
        L = world.factor * (world.phi(x) @ members.alphas.T - y[..., None]) ** 2  # (draws, n, 20)
        G, G_target = world.psi(x) @ members.betas.T, world.psi(x_target) @ members.betas.T
        first = np.swapaxes(L, 1, 2) @ G / n
        second = (G**2).mean(axis=1) - 2.0 * G_target.mean(axis=1)
        out.append((exact - first**2 - second[:, None, :]).max(axis=(1, 2)))
    return np.concatenate(out)


def violation_rows(seed: int, draws: int) -> list[Row]:
    """One block of draws: violations at every delta, of the bound and of a hundredth of what it adds to J_hat."""
    begin = perf_counter()
    members = finite_class(WORLDS["well specified"])
    rng = np.random.default_rng([1, seed])
    constants = members.constants() | complexities(members, N, np.random.default_rng([2, CLASS_SEED]))
    deviation = largest_deviations(members, N, draws, rng)
    numbers: list[tuple[str, str, float]] = []
    for method, tight in METHODS.items():
        numbers.append((method, "draws", float(draws)))
        for delta in DELTAS:
            added = uniform_bound(0.0, **constants, n_source=N, n_target=N, delta=delta, tight=tight).value
            found = (
                float((deviation > added).sum()),
                float((deviation > added / 100.0).sum()),
                float(added / deviation.max()),
                float(np.median(added / np.maximum(deviation, 1e-300))),
            )
            numbers += [(method, f"{name}, delta={delta:g}", v) for name, v in zip(PER_DELTA, found, strict=True)]
    seconds = (perf_counter() - begin) / len(numbers)
    return [Row(PROBLEM, method, seed, metric, value, seconds, {"n": N}) for method, metric, value in numbers]
