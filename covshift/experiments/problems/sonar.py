"""LIBSVM sonar, split along the worst of some random projections."""

from __future__ import annotations

from covshift.experiments.contract import Draw
from covshift.experiments.problems._biased import draw_biased


def draw(seed: int, *, n_source: int = 80, n_target: int = 50, n_directions: int = 20) -> Draw:
    return draw_biased("sonar", seed, n_source, n_target, n_directions)
