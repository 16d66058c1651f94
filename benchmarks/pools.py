"""Other rules for the same candidates: other scores, averages, a pool of both families of g, and stacking.

Used by `benchmarks.defaults` to ask whether they earn a place; everything is computed from source rows, their labels
and unlabelled target rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covshift import OneStepClassifier, OneStepRegressor
from covshift._split import Fold
from covshift.basis import Basis
from covshift.experiments.contract import Draw
from covshift.onestep._alternate import Plan, scores
from covshift.onestep._door import Entry, Units
from covshift.onestep._sample import Prepared
from covshift.onestep._search import FoldFits, Grid, Scoring, averaging_weights, refit, search


class _Opened:
    """An estimator that stops behind its door: rows, grid, folds and plan as `fit` would use them."""

    def _run(self, entry: Entry, grid: Grid, folds: list[Fold], plan: Plan) -> None:
        self.parts_ = entry, grid, folds, plan, self._scoring(has_target=True)

    def _report(self, X: np.ndarray, s: np.ndarray | None, X_target: np.ndarray | None) -> None:
        """Nothing was fitted."""


class _OpenedRegressor(_Opened, OneStepRegressor):
    pass


class _OpenedClassifier(_Opened, OneStepClassifier):
    pass


@dataclass(frozen=True)
class MixtureScore:
    """S(q) = R_w(f_q) + v (V_target(f_q) - V_source(f_q))_+ of the mixture f_q = sum_c q_c f_c.

    All three are quadratic forms: R_w(f_q) = q'Mq - 2 b'q + e and V_target - V_source = q'Aq. At a corner of the
    simplex this is the corrected score of one candidate.
    """

    M: np.ndarray  # (c, c) sum_i w_i f_c(x_i) f_d(x_i) / sum_i w_i with held-out fold models
    b: np.ndarray  # (c,)
    e: float
    A: np.ndarray  # (c, c)
    v: float

    def __call__(self, q: np.ndarray) -> float:
        return float(q @ self.M @ q - 2.0 * self.b @ q + self.e + self.v * max(q @ self.A @ q, 0.0))

    def corners(self, v: float) -> np.ndarray:
        """The corrected scores of the candidates themselves, (c,), with v of one's own."""
        return np.diag(self.M) - 2.0 * self.b + self.e + v * np.maximum(np.diag(self.A), 0.0)

    def take(self, kept: np.ndarray) -> MixtureScore:
        """The score of mixtures of some candidates."""
        square = np.ix_(kept, kept)
        return MixtureScore(self.M[square], self.b[kept], self.e, self.A[square], self.v)

    def gradient(self, q: np.ndarray) -> np.ndarray:
        Aq = self.A @ q
        return 2.0 * (self.M @ q - self.b) + (2.0 * self.v * Aq if q @ Aq > 0 else 0.0)


def minimise_on_simplex(score: MixtureScore, c: int, rounds: int = 400) -> np.ndarray:
    """argmin S(q) over q >= 0, sum q = 1, by exponentiated gradients: q <- q exp(-eta S'(q)), normalised.

    From the uniform mixture; a step that does not descend is halved. S has a concave part (-V_source), so this is a
    local minimum.
    """
    q, eta = np.full(c, 1.0 / c), 1.0
    low = score(q)
    for _ in range(rounds):
        slope = score.gradient(q)
        step = q * np.exp(-eta * (slope - slope.min()))
        step /= step.sum()
        reached = score(step)
        if reached < low:
            q, low, eta = step, reached, eta * 1.6
        else:
            eta *= 0.5
        if eta < 1e-8:
            break
    return q


@dataclass(frozen=True)
class Pool:
    """All candidates of both families, and the unweighted ones, on the same folds: score and coefficients.

    What changes only how candidates are judged needs no new fit: it is another mixture of these.
    """

    kind: np.ndarray  # (c,) "one", "zero" (families of g) or "unweighted" (g = 1)
    n_eff: float
    score: MixtureScore
    sound: np.ndarray  # (c,) whether every fit of the candidate is finite and has weight
    bandwidth: np.ndarray  # (c,) bandwidth_f
    coef: np.ndarray  # (b, c)
    intercept: np.ndarray  # (c,)
    scoring: Scoring  # the estimator's own

    def mixture(self, kinds: Sequence[str], changes: Mapping[str, Any]) -> np.ndarray:
        """q (c,): the library's rule `averaging_weights` on some kinds of candidates, with changes of its scoring."""
        own = np.flatnonzero(np.isin(self.kind, kinds) & self.sound)
        scoring = replace(self.scoring, **changes)
        index, share = averaging_weights(self.score.corners(scoring.variance_weight)[own], self.n_eff, scoring)
        q = np.zeros(len(self.kind))
        q[own[index]] = share
        return q

    def stacked(self, kinds: Sequence[str]) -> np.ndarray:
        """q (c,) with the lowest corrected score of the mixture."""
        own = np.flatnonzero(np.isin(self.kind, kinds) & self.sound)
        q = np.zeros(len(self.kind))
        q[own] = minimise_on_simplex(self.score.take(own), len(own))
        return q


class OpenedFit:
    """The default estimator's candidates on one draw (two classes at most), for any mixture of them."""

    def __init__(self, draw: Draw, seed: int) -> None:
        Opened = _OpenedRegressor if draw.kind == "regression" else _OpenedClassifier
        self.estimator = Opened(random_state=seed).fit(draw.X, draw.y, X_target=draw.X_target)
        self.pool, basis, units = _pool(self.estimator)
        X_eval = units.apply(draw.X_eval)
        self.Phi_eval = {width: basis.transform(X_eval, width) for width in np.unique(self.pool.bandwidth)}

    def predict(self, q: np.ndarray) -> np.ndarray:
        """Values or labels of the mixture at the evaluation rows."""
        pool, F = self.pool, self.pool.intercept @ q
        for width, Phi in self.Phi_eval.items():
            own = pool.bandwidth == width
            F = F + Phi @ (pool.coef[:, own] @ q[own])
        if isinstance(self.estimator, OneStepClassifier):
            return self.estimator.classes_[(F > 0).astype(int)]
        return F * self.estimator._y_spread + self.estimator._y_middle


def _pool(opened: Any) -> tuple[Pool, Basis, Units]:
    entry, grid, folds, plan, scoring = opened.parts_
    prepared = Prepared.of(entry.sample, grid.bandwidths_g)
    with_unweighted = replace(grid, regs_g=(*grid.regs_g, np.inf))
    parts: list[dict[str, np.ndarray]] = []
    for shrink, own in (("one", with_unweighted), ("zero", grid)):
        own_plan, table = replace(plan, shrink=shrink), own.table()
        result = search(prepared, own, folds, own_plan, scoring)
        final = refit(prepared, own, np.arange(len(own)), own_plan)
        kind = np.where(np.isfinite(table["reg_g"]), shrink, "unweighted")
        sound = np.isfinite(result.scores) & np.isfinite(final.coef).all(axis=(0, 1)) & ~final.all_zero
        source, target = fold_predictions(result.fits)
        numbers = {
            "coef": final.coef[:, 0], "intercept": final.intercept[0],
            "source": source, "target": target,
        }  # fmt: skip
        numbers = {name: np.where(sound, values, 0.0) for name, values in numbers.items()}
        parts.append({"kind": kind, "sound": sound, "bandwidth": table["bandwidth_f"], **numbers})
    both = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
    score = mixture_score(
        both.pop("source"), both.pop("target"), entry.sample.Y[:, 0], folds, result.reference.weights,
        scoring.variance_weight,
    )  # fmt: skip
    pool = Pool(**both, n_eff=result.n_eff, score=score, scoring=scoring)
    return pool, entry.sample.basis, entry.units


def fold_predictions(fits: FoldFits) -> tuple[np.ndarray, np.ndarray]:
    """F of every fold model at all source rows (k, n, c) and at the target rows (k, n_t, c)."""

    def at(rows: list[np.ndarray]) -> np.ndarray:
        folds = range(len(fits.alpha[0]))
        return np.stack(
            [np.hstack([scores(P, a[k])[:, 0] for P, a in zip(rows, fits.alpha, strict=True)]) for k in folds]
        )

    return at([f.Phi for f in fits.bases]), at([f.Phi_target for f in fits.bases])


def mixture_score(
    source: np.ndarray, target: np.ndarray, y: np.ndarray, folds: list[Fold], weights: list[np.ndarray], v: float
) -> MixtureScore:
    """The quadratic forms of R_w and of the fold variance from `fold_predictions`; `weights` are the reference's."""
    k, n, c = source.shape
    w, F = np.empty(n), np.empty((n, c))
    for number, fold in enumerate(folds):
        w[fold.test] = weights[number]
        F[fold.test] = source[number, fold.test]
    w /= w.sum()

    def spread(G: np.ndarray, w: np.ndarray) -> np.ndarray:
        D = ((G - G.mean(axis=0)) * np.sqrt(w)[:, None]).reshape(-1, c)
        return (k - 1) / k * (D.T @ D)

    n_target = target.shape[1]
    A = spread(target, np.full(n_target, 1.0 / n_target)) - spread(source, w)
    return MixtureScore((F * w[:, None]).T @ F, F.T @ (w * y), float(w @ y**2), A, v)
