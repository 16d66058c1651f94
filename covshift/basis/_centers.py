"""Which rows become centres."""

from __future__ import annotations

import numpy as np


def draw_centers(
    X: np.ndarray, X_target: np.ndarray | None, n_centers: int, where: str, rng: np.random.Generator
) -> np.ndarray:
    """Centres without replacement from the distinct rows of the target, of the source, or half from each.

    Distinct rows are sorted by content before the draw, so neither the order nor the repetition of rows matters
    (a row of frequency three is one candidate, like three equal rows). With `where="both"` the target gives the
    larger half and the source the rest, from rows that were not drawn yet; a side with too few distinct rows is made
    up for by the other. Without a target all come from the source.

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
    larger_half = n_centers - n_centers // 2
    from_target = _draw(target, larger_half, rng)
    from_source = _draw(_without(source, from_target), n_centers - len(from_target), rng)
    drawn = np.vstack([from_target, from_source])
    if len(drawn) < n_centers:
        drawn = np.vstack([drawn, _draw(_without(target, drawn), n_centers - len(drawn), rng)])
    return np.unique(drawn, axis=0)


def _without(rows: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Distinct `rows` that are not among the few rows `drawn`."""
    alike = np.flatnonzero(np.isin(rows[:, 0], drawn[:, 0]))
    same = (rows[alike, None, :] == drawn[None, :, :]).all(axis=2).any(axis=1)
    return np.delete(rows, alike[same], axis=0)


def _draw(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    if count >= len(rows):
        return rows
    return rows[np.sort(rng.choice(len(rows), size=count, replace=False))]
