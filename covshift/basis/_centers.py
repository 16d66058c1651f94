"""Which rows become centres."""

from __future__ import annotations

import numpy as np


def draw_centers(
    X: np.ndarray, X_target: np.ndarray | None, n_centers: int, where: str, rng: np.random.Generator
) -> np.ndarray:
    """Centres without replacement from the distinct rows of the target, of the source, or half from each.

    Distinct rows are sorted by content before the draw, so neither the order nor the repetition of rows matters
    (a row of frequency three is one candidate, like three equal rows). With `where="both"` the target gives the
    larger half; a side with too few distinct rows is made up for by the other. Without a target all come from the
    source.

    Returns at most `n_centers` rows: fewer where there are not that many distinct ones.
    """
    source = np.unique(X, axis=0)
    if X_target is None:
        return _draw(source, n_centers, rng)
    target = np.unique(X_target, axis=0)
    if where == "source":
        return _draw(source, n_centers, rng)
    if where == "target":
        return _draw(target, n_centers, rng)
    n_from_target = min(len(target), max(n_centers - n_centers // 2, n_centers - len(source)))
    from_target = _draw(target, n_from_target, rng)
    from_source = _draw(source, n_centers - n_from_target, rng)
    return np.unique(np.vstack([from_target, from_source]), axis=0)


def _draw(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    if count >= len(rows):
        return rows
    return rows[np.sort(rng.choice(len(rows), size=count, replace=False))]
