"""A small world in which every expectation is known: two Gaussians, bounded noise, bases that contain r."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from covshift.losses import get_loss

__all__ = ["WORLDS", "Pair", "World", "expected_tukey", "gaussians"]

# Gauss-Legendre nodes for the uniform noise; Tukey's loss is piecewise a polynomial of degree six in it.
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(24)


def gaussians(x: np.ndarray, centers: np.ndarray, width: float) -> np.ndarray:
    """exp(-(x - c)^2 / (2 width^2)), shape (*x.shape, b)."""
    return np.exp(-0.5 * ((x[..., None] - centers) / width) ** 2)


@dataclass(frozen=True)
class Pair:
    """Source N(mu_s, sd_s^2), target N(mu_t, sd_t^2), sd_t < sd_s, so that r is a bounded Gaussian bump."""

    mu_s: float = 0.0
    sd_s: float = 1.0
    mu_t: float = 0.8
    sd_t: float = 0.6

    @property
    def bump(self) -> tuple[float, float, float]:
        """(height, centre, width): r(x) = height exp(-(x - centre)^2 / (2 width^2))."""
        precision = self.sd_t**-2 - self.sd_s**-2
        centre = (self.mu_t / self.sd_t**2 - self.mu_s / self.sd_s**2) / precision
        return float(self.ratio(np.array(centre))), centre, precision**-0.5

    def ratio(self, x: np.ndarray) -> np.ndarray:
        z_s, z_t = (x - self.mu_s) / self.sd_s, (x - self.mu_t) / self.sd_t
        return self.sd_s / self.sd_t * np.exp(0.5 * (z_s**2 - z_t**2))

    def quadrature(self, n: int = 1201, reach: float = 9.0) -> tuple[np.ndarray, np.ndarray]:
        """Points and source probabilities of the trapezoid rule, which for Gaussians is exact to rounding."""
        x = np.linspace(self.mu_s - reach * self.sd_s, self.mu_s + reach * self.sd_s, n)
        p = np.exp(-0.5 * ((x - self.mu_s) / self.sd_s) ** 2)
        return x, p / p.sum()


@dataclass(frozen=True)
class World:
    """y = f0(x) + noise, noise uniform on [-w, w]; l_UB = factor (f - y)^2 dominates Tukey's loss of scale s; m = 1.

    F: ||alpha|| <= radius_f on Gaussians of width width_f. G+: beta >= 0, ||beta|| <= radius_g on r's own bump (so
    that r is in G+) and three narrower Gaussians on the target (so that g can change its shape).
    """

    name: str
    f0: Callable[[np.ndarray], np.ndarray]
    w: float
    scale: float
    centers_f: tuple[float, ...]
    width_f: float
    radius_f: float
    radius_g: float = 4.0
    pair: Pair = Pair()

    @property
    def factor(self) -> float:
        return get_loss("squared", scale=self.scale).domination()["tukey"] / self.scale**2

    def phi(self, x: np.ndarray) -> np.ndarray:
        return gaussians(x, np.array(self.centers_f), self.width_f)

    def psi(self, x: np.ndarray) -> np.ndarray:
        _, centre, width = self.pair.bump
        narrow = gaussians(x, self.pair.mu_t + self.pair.sd_t * np.array([-1.0, 0.0, 1.0]), 0.4)
        return np.concatenate([gaussians(x, np.array([centre]), width), narrow], axis=-1)

    def draw(self, n: int, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Source rows, labels, target rows, each (draws, n)."""
        x = self.pair.mu_s + self.pair.sd_s * rng.standard_normal((draws, n))
        x_target = self.pair.mu_t + self.pair.sd_t * rng.standard_normal((draws, n))
        return x, self.f0(x) + self.w * rng.uniform(-1.0, 1.0, (draws, n)), x_target


def expected_tukey(world: World, x: np.ndarray, F: np.ndarray) -> np.ndarray:
    """E[Tukey | x] for predictions F (candidates, points), by quadrature over the noise."""
    y = world.f0(x)[:, None] + world.w * NODES
    return get_loss("tukey", scale=world.scale).value(F[..., None], y) @ (0.5 * NODE_WEIGHTS)


def _inside(x: np.ndarray) -> np.ndarray:
    return gaussians(x, np.array([-1.0, 0.0, 1.0, 2.0]), 0.8) @ np.array([0.8, -0.9, 1.1, -0.7])


def _outside(x: np.ndarray) -> np.ndarray:
    return 1.2 * np.sin(3.0 * x)


WORLDS = {
    "well specified": World("well specified", _inside, 0.5, 0.5, (-1.0, 0.0, 1.0, 2.0), 0.8, 4.0),
    "misspecified": World("misspecified", _outside, 0.5, 0.5, (-1.5, 1.5), 1.5, 4.0),
}
