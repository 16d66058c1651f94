"""The search over (bandwidth_f, bandwidth_g, reg_f, reg_g): candidates, folds, scores, averaging."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from joblib import Parallel, delayed

from covshift._split import Fold
from covshift.onestep._alternate import Candidates, Plan, Solution, alternate
from covshift.onestep._f_step import FRows
from covshift.onestep._g_step import GRows, GSystem, make_systems
from covshift.onestep._sample import FBasis, Prepared, Sample
from covshift.onestep._scores import (
    Reference,
    corrected_score,
    fold_objective,
    reference_weights,
    uniform_reference,
)

# Floats of one (rows x candidates) matrix in a batch: 2^20 is 8 MiB.
_BATCH_FLOATS = 1 << 20
# Candidates are averaged down to this share of the largest weight.
_KEPT_SHARE = 1e-3
_OBJECTIVE_TEMPERATURE = 0.03


@dataclass(frozen=True)
class Grid:
    """What is searched: the product of four sequences of numbers."""

    bandwidths_f: tuple[float, ...]
    bandwidths_g: tuple[float, ...]
    regs_f: tuple[float, ...]
    regs_g: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.bandwidths_f) * len(self.bandwidths_g) * len(self.regs_f) * len(self.regs_g)

    @cached_property
    def columns(self) -> Candidates:
        """All candidates of one bandwidth_f, sorted by bandwidth_g, then reg_g, then reg_f."""
        which, reg_g, reg_f = np.meshgrid(
            np.arange(len(self.bandwidths_g)), np.array(self.regs_g), np.array(self.regs_f), indexing="ij"
        )
        return Candidates(which.ravel(), reg_g.ravel(), reg_f.ravel())

    def table(self, index: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """The four hyperparameters of candidates, a column each; all candidates by default."""
        i, c = np.divmod(np.arange(len(self)) if index is None else index, len(self.columns))
        return {
            "bandwidth_f": np.array(self.bandwidths_f)[i],
            "bandwidth_g": np.array(self.bandwidths_g)[self.columns.which[c]],
            "reg_f": self.columns.reg_f[c],
            "reg_g": self.columns.reg_g[c],
        }


@dataclass(frozen=True)
class Scoring:
    """How candidates are judged and averaged.

    criterion "objective", or "corrected" with v = `variance_weight`; selection "best", or "average" with `sharpness`;
    `uniform`: weights of one, where there is no target.
    """

    criterion: str
    variance_weight: float
    selection: str = "best"
    sharpness: float = 0.5
    uniform: bool = False


@dataclass
class FoldFits:
    """The fold models of all candidates: `alpha[i][k]` (q, K, c) for bandwidth_f i, `beta[i][k]` (b, c)."""

    bases: list[FBasis]
    alpha: list[list[np.ndarray]]
    beta: list[list[np.ndarray]]
    all_zero: np.ndarray  # (candidates,) whether some fold clipped every weight


@dataclass
class SearchResult:
    """Scores of all candidates (lower is better, +inf where one failed) and what they came from."""

    scores: np.ndarray
    fold_scores: np.ndarray | None  # (candidates, folds) for the paper's criterion
    n_eff: float
    fits: FoldFits
    reference: Reference


def fit_candidates(f: FRows, g: GRows, systems: list[GSystem], candidates: Candidates, plan: Plan) -> Solution:
    """`alternate` in batches of candidates, so that (rows x candidates) matrices stay small."""
    c, n = len(candidates), len(f.Phi)
    out = Solution.empty(f.Phi.shape[1], f.Y.shape[1], g.Psi[0].shape[1], c)
    step = max(1, _BATCH_FLOATS // n)
    # Candidates out of range end as inf or NaN and lose; the state is set here because threads start with their own.
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        for start in range(0, c, step):
            columns = slice(start, min(start + step, c))
            out.store(columns, alternate(f, g, systems, candidates[columns], plan))
    return out


def search(
    prepared: Prepared,
    grid: Grid,
    folds: list[Fold],
    plan: Plan,
    scoring: Scoring,
    progress: Callable[[str], None] = lambda message: None,
    n_jobs: int | None = None,
) -> SearchResult:
    """Fit every candidate on every fold and score it (method "objective" or "corrected").

    All candidates share the folds, the distances, one eigendecomposition a (fold, bandwidth_g) and one low-rank
    rotation a bandwidth_f.
    """
    sample, candidates = prepared.sample, grid.columns
    g_train, g_test = zip(*(prepared.fold(fold) for fold in folds), strict=True)
    systems = [make_systems(g) for g in g_train]
    if scoring.uniform:
        reference = uniform_reference(g_test)
    else:
        reference = reference_weights(systems, g_test, grid.regs_g, plan.m)
    fits = FoldFits([], [], [], np.zeros(len(grid), dtype=bool))
    score_parts, fold_parts = [], []
    for i, bandwidth_f in enumerate(grid.bandwidths_f):
        f = prepared.f(bandwidth_f)
        solutions = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(fit_candidates)(f.rows(sample, fold.train), g_train[k], systems[k], candidates, plan)
            for k, fold in enumerate(folds)
        )
        progress(f"bandwidth_f {i + 1}/{len(grid.bandwidths_f)}: {len(candidates)} candidates on {len(folds)} folds")
        fits.bases.append(f)
        fits.alpha.append([solution.alpha for solution in solutions])
        fits.beta.append([solution.beta for solution in solutions])
        own = slice(i * len(candidates), (i + 1) * len(candidates))
        fits.all_zero[own] = np.any([solution.all_zero for solution in solutions], axis=0)
        if scoring.criterion == "objective":
            J = np.stack(
                [
                    fold_objective(f.rows(sample, fold.test), g_test[k], solutions[k], candidates, plan)
                    for k, fold in enumerate(folds)
                ],
                axis=1,
            )
            fold_parts.append(J)
            score_parts.append(J.mean(axis=1))
        else:
            score_parts.append(corrected_score(f, sample, folds, solutions, reference, scoring.variance_weight))
    total = np.where(fits.all_zero, np.inf, np.concatenate(score_parts))
    fold_scores = np.concatenate(fold_parts) if fold_parts else None
    return SearchResult(np.where(np.isfinite(total), total, np.inf), fold_scores, reference.n_eff, fits, reference)


def averaging_weights(S: np.ndarray, n_eff: float, scoring: Scoring) -> tuple[np.ndarray, np.ndarray]:
    """(indices of the kept candidates, best first; their weights q, which sum to one).

    best:                  the argmin
    average, corrected:    q_c proportional to exp(-sharpness n_eff (S_c / S_min - 1)); the best alone if
                           S_min <= 1e-12. With sharpness 1/2 it is the likelihood of Gaussian errors.
    average, objective:    q_c proportional to exp(-(S_c - S_min) / 0.03)   (S may be negative)

    Candidates below 1e-3 of the largest weight are dropped.
    """
    order = np.argsort(S, kind="stable")
    low = S[order[0]]
    corrected = scoring.criterion == "corrected"
    if scoring.selection == "best" or (corrected and low <= 1e-12):
        return order[:1], np.ones(1)
    if corrected:
        q = np.exp(-scoring.sharpness * n_eff * (S[order] / low - 1.0))
    else:
        q = np.exp(-(S[order] - low) / _OBJECTIVE_TEMPERATURE)
    kept = q >= _KEPT_SHARE
    return order[kept], q[kept] / q[kept].sum()


@dataclass(frozen=True)
class Refit:
    """The kept candidates on all rows, in the order of their weights; arrays in the basis' own coordinates."""

    index: np.ndarray  # (c,) candidate numbers
    coef: np.ndarray  # (b, K, c)
    intercept: np.ndarray  # (K, c)
    beta: np.ndarray  # (b, c)
    n_iter: np.ndarray
    all_zero: np.ndarray
    J: np.ndarray  # rounds of the first
    J_unclipped: np.ndarray


def refit(prepared: Prepared, grid: Grid, index: np.ndarray, plan: Plan) -> Refit:
    """Fit chosen candidates on all rows."""
    sample: Sample = prepared.sample
    systems = make_systems(prepared.g)
    every, (b, K, c) = grid.columns, (sample.basis.n_features, sample.Y.shape[1], len(index))
    coef, intercept, beta = np.empty((b, K, c)), np.empty((K, c)), np.empty((b, c))
    n_iter, all_zero = np.empty(c, dtype=int), np.empty(c, dtype=bool)
    J, J_unclipped = np.empty(0), np.empty(0)
    for i in np.unique(index // len(every)):
        f = prepared.f(grid.bandwidths_f[i])
        own = np.flatnonzero(index // len(every) == i)
        own = own[np.argsort(index[own])]  # slices of equal bandwidth_g need sorted candidates
        columns = every[index[own] % len(every)]
        solution = alternate(f.rows(sample), prepared.g, systems, columns, plan, record=True)
        coef[..., own], intercept[:, own] = f.unrotate(solution.alpha)
        beta[:, own], n_iter[own] = solution.beta, solution.n_iter
        all_zero[own] = solution.all_zero
        if 0 in own:
            first = int(np.flatnonzero(own == 0)[0])
            J = np.array([values[first] for values in solution.J])
            J_unclipped = np.array([values[first] for values in solution.J_unclipped])
    seen = ~np.isnan(J)
    return Refit(index, coef, intercept, beta, n_iter, all_zero, J[seen], J_unclipped[seen])
