"""Where the coupling acts: excess error against loss-free weights by noise profile and k (k u u' in the g-step)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from covshift.experiments.rows import Row
from covshift.experiments.theory._world import Pair, gaussians

__all__ = ["KS", "MAP_SIZES", "METHODS", "MODELS", "PROFILES", "map_problem", "map_rows"]

PAIR = Pair(1.0, 0.5, 1.6, 0.35)
BANDWIDTH = 0.35
REGS_G = np.geomspace(1e-3, 10.0, 5)
REGS_F = np.geomspace(1e-4, 1.0, 7)
KS = (1, 10, 100)
SAME_MEAN_K = 10
ROUNDS = 4
MAP_SIZES = (150, 600, 2400, 9600)
MODELS = ("flexible", "line")
METRICS = ("excess, CV", "excess, hindsight")  # how reg_f was chosen


def _bump(centre: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: 0.05 + 0.6 * np.exp(-((x - centre) ** 2) / 0.08)


# Standard deviation of the noise; the source sits at 1, the target at 1.6.
PROFILES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "equal everywhere": lambda x: np.full_like(x, 0.3),
    "between, x = 1.2": _bump(1.2),
    "far side, x = 0.4": _bump(0.4),
    "target, x = 1.8": _bump(1.8),
}
# `same mean`: the weights are rescaled to the loss-free ones' mean, because smaller weights mean a larger reg_f.
METHODS = (
    "loss-free",
    *(f"k={k}" for k in KS),
    f"k={SAME_MEAN_K}, same mean",
    "control: no weights",
    "control: r",
    "control: loss-free / variance",
)


@dataclass(frozen=True)
class Sample:
    """One draw with its features; y is z-scored, `unit` is its sd."""

    x: np.ndarray
    y: np.ndarray
    Psi: np.ndarray  # (n, 50)
    Psi_target: np.ndarray
    Z: np.ndarray  # (n, q) features of f on source rows
    Z_grid: np.ndarray  # (points, q)
    truth: np.ndarray  # f0 on the grid, in units of y
    p_target: np.ndarray
    variance: np.ndarray  # of the noise, by row
    unit: float


def draw(profile: str, model: str, n: int, seed: int) -> Sample:
    """f* = sinc; 25 + 25 centres from both samples, or a straight line for f."""
    rng = np.random.default_rng([9, list(PROFILES).index(profile), n, seed])
    x = PAIR.mu_s + PAIR.sd_s * rng.standard_normal(n)
    x_target = PAIR.mu_t + PAIR.sd_t * rng.standard_normal(n)
    sd = PROFILES[profile](x)
    y = np.sinc(x) + sd * rng.standard_normal(n)
    centers = np.concatenate([rng.choice(x, 25, replace=False), rng.choice(x_target, 25, replace=False)])
    Psi = gaussians(x, centers, BANDWIDTH)
    grid = PAIR.mu_t + PAIR.sd_t * np.linspace(-6.0, 6.0, 401)
    p = np.exp(-0.5 * np.linspace(-6.0, 6.0, 401) ** 2)
    middle, unit = float(y.mean()), float(y.std())
    if model == "line":
        Z, Z_grid = (np.stack([np.ones_like(v), v - PAIR.mu_s], axis=1) for v in (x, grid))
    else:
        Z, Z_grid = _rotated(Psi, gaussians(grid, centers, BANDWIDTH))
    return Sample(
        x=x,
        y=(y - middle) / unit,
        Psi=Psi,
        Psi_target=gaussians(x_target, centers, BANDWIDTH),
        Z=Z,
        Z_grid=Z_grid,
        truth=(np.sinc(grid) - middle) / unit,
        p_target=p / p.sum(),
        variance=sd**2,
        unit=unit,
    )


def _rotated(Psi: np.ndarray, Psi_grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same ridge solutions in fewer columns: without the directions that are zero on all rows."""
    eigenvalues, V = np.linalg.eigh(Psi.T @ Psi)
    kept = V[:, eigenvalues > 1e-12 * eigenvalues[-1]]
    return Psi @ kept, Psi_grid @ kept


def solve_g(H: np.ndarray, h: np.ndarray, u: np.ndarray, reg: float, k: float) -> np.ndarray:
    """max(0, (H + reg I + k u u')^-1 h), columns of u at once (Sherman-Morrison), shape (b, columns)."""
    both = np.linalg.solve(H + reg * np.eye(len(h)), np.column_stack([h, u]))
    Ah, Au = both[:, :1], both[:, 1:]
    share = k * (u.T @ Ah)[:, 0] / (1.0 + k * np.einsum("ij,ij->j", u, Au))
    return np.maximum(Ah - Au * share, 0.0)


def solve_f(Z: np.ndarray, y: np.ndarray, W: np.ndarray, regs: np.ndarray) -> np.ndarray:
    """argmin of mean w l + reg ||alpha||^2, one column of weights for one reg, shape (q, columns)."""
    n, q = Z.shape
    A = np.stack([Z.T @ (w[:, None] * Z) for w in W.T]) + n * regs[:, None, None] * np.eye(q)
    return np.linalg.solve(A, ((W * y[:, None]).T @ Z)[..., None])[..., 0].T


def choose_reg_g(sample: Sample, rng: np.random.Generator, folds: int = 5) -> float:
    """uLSIF's own cross validation, mean g^2 / 2 - mean_target g on held-out rows, g clipped at zero."""
    n = len(sample.x)
    fold, fold_target = rng.permutation(n) % folds, rng.permutation(n) % folds
    scores = np.zeros(len(REGS_G))
    for k in range(folds):
        inside, inside_target = sample.Psi[fold != k], sample.Psi_target[fold_target != k]
        H, h = inside.T @ inside / len(inside), inside_target.mean(axis=0)
        no_loss = np.zeros((len(h), 1))
        beta = np.hstack([solve_g(H, h, no_loss, reg, 0.0) for reg in REGS_G])
        scores += 0.5 * ((sample.Psi[fold == k] @ beta) ** 2).mean(axis=0)
        scores -= (sample.Psi_target[fold_target == k] @ beta).mean(axis=0)
    return float(REGS_G[int(np.argmin(scores))])


def choose_reg_f(sample: Sample, w: np.ndarray, rng: np.random.Generator, folds: int = 5) -> int:
    """Index of the reg_f with the smallest held-out error under the loss-free weights."""
    fold, scores = rng.permutation(len(w)) % folds, np.zeros(len(REGS_F))
    for k in range(folds):
        a, b = fold != k, fold == k
        alpha = solve_f(sample.Z[a], sample.y[a], np.repeat(w[a, None], len(REGS_F), axis=1), REGS_F)
        scores += w[b] @ (sample.Z[b] @ alpha - sample.y[b, None]) ** 2
    return int(np.argmin(scores))


def one_step(sample: Sample, H: np.ndarray, h: np.ndarray, reg_g: float, k: float, mean: float | None) -> np.ndarray:
    """alpha for every reg_f after ROUNDS of Algorithm 1 from loss-free weights; `mean` rescales the weights."""
    n = len(sample.x)
    W = np.repeat(sample.Psi @ solve_g(H, h, np.zeros((len(h), 1)), reg_g, 0.0), len(REGS_F), axis=1)
    alpha = solve_f(sample.Z, sample.y, W, REGS_F)
    for _ in range(ROUNDS):
        losses = (sample.Z @ alpha - sample.y[:, None]) ** 2
        W = sample.Psi @ solve_g(H, h, sample.Psi.T @ losses / n, reg_g, k)
        if mean is not None:
            W *= mean / np.maximum(W.mean(axis=0), 1e-300)
        alpha = solve_f(sample.Z, sample.y, W, REGS_F)
    return alpha


def map_problem(profile: str, model: str, n: int) -> str:
    return f"map/{profile}/{model}/n={n}"


def map_rows(profile: str, model: str, n: int, seed: int) -> list[Row]:
    """One draw: E_target (f - f*)^2 in units of y, for every method, with reg_f chosen without and with hindsight."""
    begin = perf_counter()
    sample = draw(profile, model, n, seed)
    rng = np.random.default_rng([10, n, seed])
    reg_g = choose_reg_g(sample, rng)
    H, h = sample.Psi.T @ sample.Psi / n, sample.Psi_target.mean(axis=0)
    free = (sample.Psi @ solve_g(H, h, np.zeros((len(h), 1)), reg_g, 0.0))[:, 0]
    chosen = choose_reg_f(sample, free, rng)
    mean = float(free.mean())

    def weighted(w: np.ndarray) -> np.ndarray:
        return solve_f(sample.Z, sample.y, np.repeat((w * mean / w.mean())[:, None], len(REGS_F), axis=1), REGS_F)

    alphas = {"loss-free": weighted(free)}
    for k in KS:
        alphas[f"k={k}"] = one_step(sample, H, h, reg_g, k, None)
    alphas[f"k={SAME_MEAN_K}, same mean"] = one_step(sample, H, h, reg_g, SAME_MEAN_K, mean)
    alphas["control: no weights"] = weighted(np.ones(n))
    alphas["control: r"] = weighted(PAIR.ratio(sample.x))
    alphas["control: loss-free / variance"] = weighted(free / sample.variance)
    rows, seconds = [], (perf_counter() - begin) / (2 * len(METHODS))
    for method in METHODS:
        error = sample.unit**2 * (sample.p_target @ (sample.Z_grid @ alphas[method] - sample.truth[:, None]) ** 2)
        for metric, value in zip(METRICS, (error[chosen], error.min()), strict=True):
            short = float(f"{value:.6g}")  # the most rows by far: six digits keep their file small
            rows.append(Row(map_problem(profile, model, n), method, seed, metric, short, seconds, {"n": n}))
    return rows
