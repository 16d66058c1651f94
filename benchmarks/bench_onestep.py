"""The full joint search of Algorithm 1 on the toy, against the loop one would write first; and the default fit."""

from __future__ import annotations

import time
import warnings
from itertools import product

import numpy as np

from benchmarks._record import Record, best_of
from covshift import OneStepRegressor, OverlapWarning
from covshift._split import Fold
from covshift.datasets import make_toy_regression
from covshift.losses import get_loss
from covshift.onestep._alternate import Plan
from covshift.onestep._door import make_entry
from covshift.onestep._sample import Prepared
from covshift.onestep._search import Grid, Scoring, search

_BANDWIDTHS = np.geomspace(0.1, 2.0, 9)
_REGS = np.logspace(-3, 0, 9)
_ROUNDS = 4


def plain_loop(Z: np.ndarray, y: np.ndarray, T: np.ndarray, C: np.ndarray, folds: list[Fold]) -> np.ndarray:
    """Held-out objective of every candidate, mean over folds: Algorithm 1 line by line, two dense solves a round.

    Features are computed once for each bandwidth, which is what anybody would do; nothing else is shared.
    """

    def features(rows: np.ndarray, sigma: float) -> np.ndarray:
        return np.exp(-((rows[:, None, :] - C) ** 2).sum(axis=2) / (2 * sigma**2))

    source, target = [[features(rows, sigma) for sigma in _BANDWIDTHS] for rows in (Z, T)]
    J = np.zeros((len(_BANDWIDTHS), len(_BANDWIDTHS), len(_REGS), len(_REGS)))
    eye = np.eye(len(C))
    for fold, i, j in product(folds, range(len(_BANDWIDTHS)), range(len(_BANDWIDTHS))):
        Phi, Psi, labels = source[i][fold.train], source[j][fold.train], y[fold.train]
        n = len(labels)
        H, h = Psi.T @ Psi / n, target[j][fold.target_train].mean(axis=0)
        for a, b in product(range(len(_REGS)), range(len(_REGS))):  # reg_g, reg_f
            l = labels**2
            for _ in range(_ROUNDS):
                u = Psi.T @ l / n
                beta = np.maximum(np.linalg.solve(H + np.outer(u, u) + _REGS[a] * eye, h), 0.0)
                w = Psi @ beta
                weighted = Phi.T * w
                alpha = np.linalg.solve(weighted @ Phi + _REGS[b] * n * eye, weighted @ labels)
                l = (labels - Phi @ alpha) ** 2
            g = source[j][fold.test] @ beta
            held_out = (y[fold.test] - source[i][fold.test] @ alpha) ** 2
            g_target = target[j][fold.target_test] @ beta
            J[i, j, a, b] += (np.mean(held_out * g) ** 2 + np.mean(g**2) - 2 * g_target.mean()) / len(folds)
    return J.ravel()


def full_search() -> Record:
    """9^4 candidates x 5 folds, 4 rounds: fold fits and scores of both, on the same folds and centres."""
    toy, rng = make_toy_regression(random_state=0), np.random.default_rng(0)
    y, bandwidths, regs = toy.y[:, None], tuple(_BANDWIDTHS.tolist()), tuple(_REGS.tolist())
    shape = {"standardize": False, "intercept": False, "basis": "gaussian", "n_centers": 50, "centers": "target"}
    entry = make_entry(toy.X, y, None, toy.X_target, toy.y, rng=rng, **shape)
    sample, folds = entry.sample, entry.folds(5, False, 0)
    plan = Plan(get_loss("squared"), "zero", "zero", _ROUNDS, tol=0.0)
    grid, scoring = Grid(bandwidths, bandwidths, regs, regs), Scoring("objective", 0.0)
    seconds = best_of(lambda: search(Prepared.of(sample, bandwidths), grid, folds, plan, scoring), 5)
    scores = search(Prepared.of(sample, bandwidths), grid, folds, plan, scoring).scores
    start = time.perf_counter()
    J = plain_loop(sample.X, sample.Y[:, 0], sample.X_target, sample.basis.centers, folds)
    loop = time.perf_counter() - start
    gap = np.max(np.abs(scores - J) / np.abs(J))
    note = f"{loop:.2f} s against {seconds:.3f} s; largest relative difference of a score {gap:.0e}"
    work = "full joint grid on the toy, 9^4 candidates x 5 folds, 4 rounds, against a plain loop"
    return Record(work, loop / seconds, "x", 20, 30, note=note)


def default_fit() -> Record:
    """`OneStepRegressor().fit` on the toy in single weighted ridge solves, Phi included."""
    toy = make_toy_regression(random_state=0)
    C, w = toy.X_target[:50], np.random.default_rng(0).uniform(0.5, 2, len(toy.y))

    def one_solve() -> np.ndarray:
        Phi = np.exp(-((toy.X - C.T) ** 2) / 2)
        return np.linalg.solve((Phi.T * w) @ Phi + 1e-2 * np.eye(50), Phi.T @ (w * toy.y))

    model = OneStepRegressor(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        fit = best_of(lambda: model.fit(toy.X, toy.y, X_target=toy.X_target), 5)
    solve = best_of(one_solve, 200)
    candidates = len(model.cv_results_["score"])
    note = f"{fit * 1e3:.0f} ms for {candidates} candidates x 5 folds, against {solve * 1e6:.0f} us"
    work = "default OneStepRegressor().fit on the toy, in single weighted ridge solves (n = 150, b = 50)"
    return Record(work, fit / solve, "solves", note=note)
