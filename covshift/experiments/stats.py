"""Paired comparisons of methods over trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

__all__ = ["LEVEL", "Record", "best_and_ties", "holm", "paired_p", "record"]

LEVEL = 0.05


def paired_p(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sided p of the paired t-test of mean(a - b) = 0; pairs with a NaN are left out.

    Equal samples, or fewer than two pairs, are no evidence of a difference: 1.

    Examples
    --------
    >>> paired_p(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0]))
    1.0
    """
    d = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    d = d[np.isfinite(d)]
    if len(d) < 2 or not d.any():
        return 1.0
    spread = d.std(ddof=1)
    if spread == 0:
        return 0.0
    return float(2 * stats.t.sf(abs(d.mean()) / (spread / np.sqrt(len(d))), len(d) - 1))


def best_and_ties(values: Mapping[str, np.ndarray], level: float = LEVEL) -> set[str]:
    """The method with the lowest mean, and all that are not significantly worse (paired t-test at `level`)."""
    means = {name: float(np.nanmean(v)) for name, v in values.items() if np.isfinite(v).any()}
    if not means:
        return set()
    best = min(means, key=lambda name: means[name])
    return {best} | {name for name in means if paired_p(values[name], values[best]) >= level}


def holm(p: Sequence[float]) -> np.ndarray:
    """Holm's adjusted p values: max over smaller ones of (k - rank) p, at most 1.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(2)
    array([0.03, 0.06, 0.06])
    """
    raw = np.asarray(p, dtype=np.float64)
    order = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * (len(raw) - np.arange(len(raw))))
    out = np.empty_like(raw)
    out[order] = np.minimum(stepped, 1.0)
    return out


@dataclass(frozen=True)
class Record:
    """How a method does against a reference over several problems: ratios of mean losses, and what is significant.

    `wins` and `losses` count problems whose Holm-adjusted p is below the level; the rest are ties.
    """

    ratios: dict[str, float]
    wins: int
    losses: int

    @property
    def ties(self) -> int:
        return len(self.ratios) - self.wins - self.losses

    @property
    def geometric_mean(self) -> float:
        return float(np.exp(np.mean(np.log(list(self.ratios.values())))))

    @property
    def worst(self) -> tuple[str, float]:
        return max(self.ratios.items(), key=lambda item: item[1])


def record(method: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray], level: float = LEVEL) -> Record:
    """Compare by problem: losses of both on the same draws, Holm's correction over the problems given."""
    ratios, p, better = {}, [], []
    for problem, values in method.items():
        both = np.isfinite(values) & np.isfinite(reference[problem])
        mine, theirs = values[both].mean(), reference[problem][both].mean()
        ratios[problem] = 1.0 if mine == theirs else float(mine / theirs) if theirs > 0 else np.inf
        p.append(paired_p(values, reference[problem]))
        better.append(mine < theirs)
    significant = holm(p) < level
    wins = int(np.sum(significant & np.array(better, dtype=bool)))
    return Record(ratios, wins, int(significant.sum()) - wins)
