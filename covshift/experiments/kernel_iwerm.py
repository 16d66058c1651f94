"""ERM, EIWERM and RIWERM of the paper with its kernel models: the two-step learners that Table 1 and 2 compare.

Centres, folds and median distance are drawn exactly as `OneStepRegressor` draws them for the same seed, so that all
methods of a trial differ in nothing but what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covshift._checks import as_generator, check_choice
from covshift._split import Fold
from covshift.basis import GaussianBasis, median_bandwidth
from covshift.exceptions import AllWeightsZeroError
from covshift.experiments.contract import Draw, Fitted
from covshift.losses import Loss, get_loss
from covshift.onestep._alternate import Plan, Solution, f_step, row_losses, scores
from covshift.onestep._door import REGS_G, WIDTHS_F, Entry, default_regs_f, make_entry, shared_median
from covshift.onestep._g_step import make_systems
from covshift.onestep._kernel import KernelModel
from covshift.onestep._sample import FBasis, Prepared, Sample
from covshift.onestep._scores import Reference, corrected_score, reference_weights
from covshift.onestep._search import Scoring, averaging_weights
from covshift.ratio._least_squares import clipped_betas, moments, relative_second_moment
from covshift.ratio._search import search_least_squares

__all__ = ["Problem", "TwoStep", "fit_two_step", "make_problem", "ratio_at_source", "search_ratio"]

CHOICES = {
    "weighting": ("none", "flattened", "relative", "given"),
    "loss": ("squared", "tukey", "welsch"),
    "centers": ("target", "source", "both"),
    "median_of": ("pooled", "source", "target"),
    "criterion": ("iwcv", "corrected"),
    "selection": ("best", "average"),
}


@dataclass(frozen=True)
class TwoStep:
    """How a two-step learner is fitted.

    weighting : "none" (ERM), "flattened" (EIWERM: uLSIF's ratio to the power gamma), "relative" (RIWERM: RuLSIF's
        relative ratio), "given" (`Draw.true_ratio` to the power gamma)
    exponents : gamma for "flattened" and "given", relative alpha for "relative"; searched together with f
    bandwidth_f, bandwidth_g : "median", for f also "auto" (the default's), or numbers;
        bandwidth_g and reg_g are searched by (R)uLSIF's own k-fold score
    median_of : rows whose distances to the centres give the median: "pooled", "source" or "target"
    criterion : "iwcv" (held-out losses weighted by uLSIF's ratio; for "none" plain cross-validation) or "corrected"
        (the score of `OneStepRegressor`)
    reg_f : numbers, or "auto" for the default's
    selection, variance_weight, sharpness : as in `OneStepRegressor`
    """

    weighting: str = "none"
    loss: str = "squared"
    bandwidth_f: Sequence[float] | str = "median"
    reg_f: Sequence[float] | str = "auto"
    bandwidth_g: Sequence[float] | str = "median"
    reg_g: Sequence[float] = REGS_G
    exponents: Sequence[float] = (1.0,)
    n_centers: int = 50
    centers: str = "target"
    median_of: str = "pooled"
    standardize: bool = False
    criterion: str = "iwcv"
    selection: str = "best"
    variance_weight: float = 0.0
    sharpness: float = 0.5
    cv: int = 5

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)


@dataclass(frozen=True)
class Problem:
    """A draw in the units of the fit, with folds and the median distance."""

    entry: Entry
    folds: list[Fold]
    median: float
    middle: float
    spread: float
    classes: np.ndarray | None

    def labels(self, F: np.ndarray) -> np.ndarray:
        """Predictions in the units of y, from scores F (n, K)."""
        if self.classes is None:
            return F[:, 0] * self.spread + self.middle
        return self.classes[(F[:, 0] > 0).astype(int) if F.shape[1] == 1 else F.argmax(axis=1)]


def make_problem(
    draw: Draw,
    seed: int,
    *,
    standardize: bool = False,
    n_centers: int = 50,
    centers: str = "target",
    median_of: str = "pooled",
    cv: int = 5,
) -> Problem:
    """Units, labels, centres and folds as the one-step estimators make them with `random_state=seed`."""
    middle, spread, classes = 0.0, 1.0, None
    if draw.kind == "classification":
        classes, codes = np.unique(draw.y, return_inverse=True)
        K = len(classes)
        Y = np.where(codes[:, None] == (np.arange(K) if K > 2 else 1), 1.0, -1.0)
    else:
        if standardize:
            middle, spread = float(draw.y.mean()), float(draw.y.std()) or 1.0
        Y = ((draw.y - middle) / spread)[:, None]
    rng = as_generator(seed)
    entry = make_entry(
        draw.X,
        Y,
        None,
        draw.X_target,
        Y.argmax(axis=1) if Y.shape[1] > 1 else Y[:, 0],
        standardize=standardize,
        intercept=standardize and classes is None,
        basis="gaussian",
        n_centers=n_centers,
        centers=centers,
        rng=rng,
    )
    folds = entry.folds(cv, classes is not None, int(rng.integers(2**31 - 1)))
    return Problem(entry, folds, _median(entry, median_of), middle, spread, classes)


def _median(entry: Entry, median_of: str) -> float:
    basis, sample = entry.sample.basis, entry.sample
    assert isinstance(basis, GaussianBasis)
    if median_of == "pooled":
        return shared_median(entry, basis.centers)
    return median_bandwidth({"source": sample.X, "target": sample.X_target}[median_of], None, basis.centers)


def search_ratio(
    problem: Problem, bandwidths: Sequence[float] | str, regs: Sequence[float], relative_alpha: float = 0.0
) -> tuple[float, float]:
    """(bandwidth_g, reg_g) with the lowest k-fold score of (R)uLSIF."""
    sample, widths = problem.entry.sample, _numbers(bandwidths, problem.median)
    if len(widths) * len(regs) == 1:
        return float(widths[0]), float(regs[0])
    found = search_least_squares(
        sample.X, sample.X_target, None, sample.basis, widths, regs, problem.folds, relative_alpha
    )
    return found.bandwidth, found.reg


def ratio_at_source(problem: Problem, bandwidth: float, reg: float, relative_alpha: float = 0.0) -> np.ndarray:
    """(R)uLSIF's clipped ratio at the source rows; an error where all of it is zero."""
    sample, width, a = problem.entry.sample, np.array([bandwidth]), relative_alpha
    source, target = (
        moments(sample.basis, sample.X, width),
        moments(sample.basis, sample.X_target, width, second=a > 0),
    )
    H = relative_second_moment(source, target, a)[0]
    beta = clipped_betas(H, target.mean[0], np.array([reg]))[:, 0]
    w = np.maximum(sample.basis.transform(sample.X, bandwidth) @ beta, 0.0)
    if not w.any():
        raise AllWeightsZeroError(f"no source row has weight with bandwidth={bandwidth:.3g} and reg={reg:.3g}")
    return w


def fit_two_step(draw: Draw, seed: int, how: TwoStep) -> Fitted:
    """Ratio first, then weighted ERM; (bandwidth_f, reg_f, exponent) by the criterion, then a refit on all rows."""
    problem = make_problem(
        draw,
        seed,
        standardize=how.standardize,
        n_centers=how.n_centers,
        centers=how.centers,
        median_of=how.median_of,
        cv=how.cv,
    )
    W, judge = _weights(draw, problem, how)  # (n, exponents), (n,)
    search = _Search(problem, how, W, judge)
    with np.errstate(all="ignore"):
        S = search.scores()
        if not np.isfinite(S).any():
            raise AllWeightsZeroError("no candidate gave finite held-out losses")
        criterion = "corrected" if how.criterion == "corrected" else "objective"
        scoring = Scoring(criterion, how.variance_weight, how.selection, how.sharpness)
        index, q = averaging_weights(np.where(np.isfinite(S), S, np.inf), search.n_eff, scoring)
        model, w = search.refit(index, q)
    units = problem.entry.units
    return Fitted(lambda X: problem.labels(model.scores(np.asarray(X, dtype=units.middle.dtype))), w)


def _numbers(bandwidths: Sequence[float] | str, median: float) -> tuple[float, ...]:
    if isinstance(bandwidths, str):
        return tuple(width * median for width in (WIDTHS_F if bandwidths == "auto" else (1.0,)))
    return tuple(bandwidths)


def _weights(draw: Draw, problem: Problem, how: TwoStep) -> tuple[np.ndarray, np.ndarray]:
    """Training weights, one column an exponent, and the weights of the held-out losses."""
    if how.weighting == "none":
        ones = np.ones(len(draw.y))
        return ones[:, None], ones
    exponents = np.asarray(how.exponents, dtype=np.float64)
    if how.weighting == "given":
        if draw.true_ratio is None:
            raise ValueError("weighting='given' needs a problem whose true ratio is known")
        return draw.true_ratio[:, None] ** exponents, draw.true_ratio
    ratio = ratio_at_source(problem, *search_ratio(problem, how.bandwidth_g, how.reg_g))
    if how.weighting == "flattened":
        return ratio[:, None] ** exponents, ratio
    columns = [ratio_at_source(problem, *search_ratio(problem, how.bandwidth_g, how.reg_g, a), a) for a in exponents]
    return np.column_stack(columns), ratio


class _Search:
    """All candidates (bandwidth_f, exponent, reg_f), in this order, for given weights."""

    def __init__(self, problem: Problem, how: TwoStep, W: np.ndarray, judge: np.ndarray) -> None:
        self.problem, self.how, self.judge = problem, how, judge
        self.sample: Sample = problem.entry.sample
        self.loss: Loss = get_loss(how.loss)
        self.plan = Plan(self.loss)
        self.bandwidths_f = _numbers(how.bandwidth_f, problem.median)
        kind = "regression" if problem.classes is None else "classification"
        regs = default_regs_f(self.sample.n, kind) if isinstance(how.reg_f, str) else tuple(how.reg_f)
        self.reg_f = np.tile(np.asarray(regs, dtype=np.float64), W.shape[1])  # (c,)
        self.W = np.repeat(W, len(regs), axis=1)  # (n, c)
        self.prepared = Prepared.of(self.sample, (problem.median,))
        self.n_eff = float(judge.sum() ** 2 / (judge**2).sum())

    def scores(self) -> np.ndarray:
        """Lower is better; one number a candidate."""
        reference = None
        if self.how.criterion == "corrected":
            reference = self._reference()
            self.n_eff = reference.n_eff
        return np.concatenate([self._scores(self.prepared.f(sigma), reference) for sigma in self.bandwidths_f])

    def _scores(self, f: FBasis, reference: Reference | None) -> np.ndarray:
        sample, folds = self.sample, self.problem.folds
        alphas = [self._fit(f, slice(None), fold.train) for fold in folds]
        if reference is not None:
            c = self.W.shape[1]
            fits = [Solution(alpha, np.zeros((0, c)), np.zeros(c, int), np.zeros(c, bool)) for alpha in alphas]
            return corrected_score(f, sample, folds, fits, reference, self.how.variance_weight)
        total = np.zeros(self.W.shape[1])
        for alpha, fold in zip(alphas, folds, strict=True):
            rows = f.rows(sample, fold.test)
            total += self.judge[fold.test] @ row_losses(self.loss, scores(rows.Phi, alpha), rows.Y)
        return total / len(self.judge)

    def _reference(self) -> Reference:
        """What `OneStepRegressor` judges by: loss-free uLSIF of the folds, averaged over its regularisations."""
        train, test = zip(*(self.prepared.fold(fold) for fold in self.problem.folds), strict=True)
        return reference_weights([make_systems(g) for g in train], test, tuple(self.how.reg_g), 1.0)

    def _fit(self, f: FBasis, columns: slice | np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        W = self.W[:, columns] if rows is None else self.W[rows][:, columns]
        return f_step(self.plan, f.rows(self.sample, rows), W, self.reg_f[columns], np.zeros(0), first=True)

    def refit(self, index: np.ndarray, q: np.ndarray) -> tuple[KernelModel, np.ndarray]:
        """The model of the kept candidates on all rows, and the averaged weights of the source rows."""
        b, K, c, every = self.sample.basis.n_features, self.sample.Y.shape[1], len(index), self.W.shape[1]
        coef, intercept = np.empty((b, K, c)), np.empty((K, c))
        for i in np.unique(index // every):
            own = np.flatnonzero(index // every == i)
            f = self.prepared.f(self.bandwidths_f[i])
            coef[..., own], intercept[:, own] = f.unrotate(self._fit(f, index[own] % every))
        widths = np.array([self.bandwidths_f[i // every] for i in index])
        entry = self.problem.entry
        none = np.zeros((b, c))
        model = KernelModel(entry.units, entry.sample.basis, "one", widths, coef, intercept, widths, none, q)
        return model, self.W[:, index % every] @ q
