"""What the five classification sets share: the paper's worst projection, drawn anew for every seed."""

from __future__ import annotations

import numpy as np

from covshift.datasets import fetch_libsvm, make_biased_split
from covshift.experiments.contract import Draw, draw_rows


def draw_biased(
    name: str, seed: int, n_source: int, n_target: int, n_directions: int, *, drop_id: bool = False
) -> Draw:
    data = fetch_libsvm(name, drop_id=drop_id)
    rng = np.random.default_rng(seed)
    split = make_biased_split(data.data, data.target, n_directions=n_directions, random_state=rng)
    source, target = (split.X, split.y), (split.X_target, split.y_target)
    ratio = split.true_ratio(split.X)
    return draw_rows("classification", source, target, n_source, n_target, rng, ratio)
