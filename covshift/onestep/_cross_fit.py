"""Algorithm 1 with any learner as f: the alternation on cross-fitted losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from covshift._split import Fold
from covshift.onestep._g_step import GRows, GSystem, importance
from covshift.onestep._objective import weighted_mean
from covshift.onestep._scores import fold_variance

FitPredict = Callable[[np.ndarray, np.ndarray], Any]


@dataclass(frozen=True)
class Learner:
    """f as the alternation sees it; row numbers in, numbers out.

    fit(rows, weights) -> a fitted learner, None where no weight or one class is left; scores(fitted, rows) -> F
    (n, K); scores_target(fitted) -> F (n_t, K); losses(F, rows) -> l (n,), what g is shown.
    """

    fit: Callable[[np.ndarray, np.ndarray], Any]
    scores: Callable[[Any, np.ndarray], np.ndarray]
    scores_target: Callable[[Any], np.ndarray]
    losses: Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class GSide:
    """Rows and systems of g for one bandwidth: on all rows, and on both sides of every fold."""

    rows: GRows
    system: GSystem
    fold_systems: list[GSystem]
    held_out: list[GRows]


@dataclass
class CrossFit:
    """One candidate after the alternation."""

    beta: np.ndarray  # (b,)
    w: np.ndarray  # (n,) g at the source rows
    models: list[Any]  # fold models of the last round
    F: np.ndarray  # (n, K) scores of each row's own held-out fold model
    l: np.ndarray  # (n,) losses that g was shown last
    history: list[dict[str, float]] = field(default_factory=list)
    failed: bool = False  # no weight left, or weight on one class only, at all rows or in some fold


def cross_fit(
    learner: Learner,
    g: GSide,
    folds: list[Fold],
    reg_g: float,
    shrink: str,
    *,
    out_of_fold: bool,
    coupling: float,
    max_iter: int,
    tol: float,
    m: float = 1.0,
) -> CrossFit:
    """Algorithm 1 for one candidate; the losses that g sees are those of fold models on rows they were not fitted to.

    A flexible learner's losses on its own rows are near zero and would tell g nothing. Each round fits the k fold
    models with the weights of the round, reads their held-out losses, and g answers on all rows. With
    `out_of_fold=False` the losses are those of one fit to all rows, as Algorithm 1 is printed.
    """
    n, s, every = len(g.rows.Psi[0]), g.rows.s, np.arange(len(g.rows.Psi[0]))
    frequencies = np.ones(n) if s is None else s
    regs, which = np.array([reg_g]), np.zeros(1, dtype=int)
    u, lbar = np.zeros((g.rows.Psi[0].shape[1], 1)), np.zeros(1)
    root_k, previous = np.sqrt(coupling), np.inf
    history: list[dict[str, float]] = []
    for t in range(max_iter):
        free = g.system.step(root_k * u, root_k * lbar, regs, shrink, m)
        beta = np.maximum(free, 0.0) if shrink == "zero" else free
        w = importance(g.rows.Psi[0], beta, shrink)
        models = [learner.fit(fold.train, w[fold.train, 0] * frequencies[fold.train]) for fold in folds]
        if any(model is None for model in models):
            return CrossFit(beta[:, 0], w[:, 0], [], np.empty((n, 0)), np.empty(n), history, failed=True)
        F = _held_out_scores(learner, models, folds, n)
        l = learner.losses(F, every)
        if not out_of_fold:
            l = learner.losses(learner.scores(learner.fit(every, w[:, 0] * frequencies), every), every)
        J = float(g.rows.bound(w, l[:, None], g.rows.target_mean(beta, which, shrink), m)[0])
        history.append({"round": t + 1, "objective": J, "ess": float(_ess(w[:, 0] * frequencies))})
        if abs(J - previous) <= tol * max(abs(J), m**2) or not coupling:
            break
        previous = J
        u, lbar = g.rows.loss_moments(l[:, None], which)
    return CrossFit(beta[:, 0], w[:, 0], models, F, l, history)


def cross_objective(
    fit: CrossFit, g: GSide, folds: list[Fold], reg_g: float, shrink: str, coupling: float, m: float = 1.0
) -> float:
    """Mean over folds of the objective with g refitted to the training side and judged on the held-out side."""
    values, which = [], np.zeros(1, dtype=int)
    for fold, system, held_out in zip(folds, g.fold_systems, g.held_out, strict=True):
        inside = g.rows.Psi[0][fold.train]
        s = None if g.rows.s is None else g.rows.s[fold.train]
        root_k = np.sqrt(coupling)
        u = root_k * weighted_mean(inside * fit.l[fold.train, None], s)[:, None]
        lbar = root_k * np.atleast_1d(weighted_mean(fit.l[fold.train], s))
        beta = system.step(u, lbar, np.array([reg_g]), shrink, m)
        beta = np.maximum(beta, 0.0) if shrink == "zero" else beta
        W = held_out.weights(beta, which, shrink)
        gt = held_out.target_mean(beta, which, shrink)
        values.append(held_out.bound(W, fit.l[fold.test, None], gt, m)[0])
    return float(np.mean(values))


def cross_corrected(
    fit: CrossFit,
    learner: Learner,
    Y: np.ndarray,
    folds: list[Fold],
    weights: list[np.ndarray],
    s: np.ndarray | None,
    v: float,
) -> float:
    """S = R_w + v (V_target - V_source)_+ of the corrected criterion, with squared errors of the scores."""
    every = np.arange(len(Y))
    w = np.empty(len(Y))
    for fold, part in zip(folds, weights, strict=True):
        w[fold.test] = part
    seen = np.concatenate([fold.test for fold in folds])
    ws = (w if s is None else w * s)[seen]
    half = 0.5 if Y.shape[1] > 1 else 1.0
    risk = ws @ (half * ((fit.F - Y) ** 2).sum(axis=1))[seen] / ws.sum()
    if not v:
        return float(risk)
    source = half * fold_variance(np.stack([learner.scores(model, every) for model in fit.models]))
    target = half * fold_variance(np.stack([learner.scores_target(model) for model in fit.models]))
    return float(risk + v * max(target.mean() - ws @ source[seen] / ws.sum(), 0.0))


def _held_out_scores(learner: Learner, models: list[Any], folds: list[Fold], n: int) -> np.ndarray:
    """Scores of each row's own held-out fold model; rows that no fold holds out get the mean over all models."""
    parts = [learner.scores(model, fold.test) for model, fold in zip(models, folds, strict=True)]
    F = np.full((n, parts[0].shape[1]), np.nan)
    for part, fold in zip(parts, folds, strict=True):
        F[fold.test] = part
    never = np.flatnonzero(np.isnan(F).any(axis=1))
    if len(never):
        F[never] = np.mean([learner.scores(model, never) for model in models], axis=0)
    return F


def _ess(w: np.ndarray) -> float:
    return w.sum() ** 2 / (w**2).sum()
