"""LIBSVM breast-cancer, split along the worst of some random projections."""

from __future__ import annotations

from covshift.experiments.contract import Draw
from covshift.experiments.problems._biased import draw_biased


def draw(
    seed: int, *, n_source: int = 100, n_target: int = 100, n_directions: int = 20, drop_id: bool = False
) -> Draw:
    return draw_biased("breast-cancer", seed, n_source, n_target, n_directions, drop_id=drop_id)
