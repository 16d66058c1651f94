"""Bike sharing: the first half of the year trains, the second is predicted."""

from __future__ import annotations

from typing import Any

import numpy as np

from covshift.datasets import fetch_bike_sharing
from covshift.experiments.contract import Draw, draw_rows


def draw(seed: int, *, n_source: int = 100, n_target: int = 100, **split: Any) -> Draw:
    """`split` are the fetcher's own choices."""
    data = fetch_bike_sharing(**split)
    rng = np.random.default_rng(seed)
    return draw_rows("regression", (data.X, data.y), (data.X_target, data.y_target), n_source, n_target, rng)
