"""What the five classification sets share: the paper's worst projection, drawn anew for every seed."""

from __future__ import annotations

import numpy as np

from covshift.datasets import fetch_libsvm, make_biased_split
from covshift.experiments.contract import Draw, draw_rows

# The worst direction can leave the source with one class, which no method can learn from: then the next draw of the
# same generator is taken.
_MAX_DRAWS = 100


def draw_biased(
    name: str, seed: int, n_source: int, n_target: int, n_directions: int, *, drop_id: bool = False
) -> Draw:
    data = fetch_libsvm(name, drop_id=drop_id)
    rng = np.random.default_rng(seed)
    for _ in range(_MAX_DRAWS):
        split = make_biased_split(data.data, data.target, n_directions=n_directions, random_state=rng)
        source, target = (split.X, split.y), (split.X_target, split.y_target)
        draw = draw_rows("classification", source, target, n_source, n_target, rng, split.true_ratio(split.X))
        if np.unique(draw.y, return_counts=True)[1].min() < len(draw.y):
            return draw
    raise ValueError(f"{name}, seed {seed}: {_MAX_DRAWS} draws in a row have source rows of one class only")
