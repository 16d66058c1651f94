"""What `OneStepRegressor` and `OneStepClassifier` share: the door, the grids, the fit and its attributes."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from covshift._checks import (
    as_generator,
    check_choice,
    check_count,
    check_flag,
    check_grid,
    check_number,
    check_target,
    check_weights,
    no_target,
    unwrap_target,
)
from covshift._split import Fold
from covshift.basis import BASES, weighted_median
from covshift.losses import Loss
from covshift.onestep._alternate import Plan
from covshift.onestep._door import REGS_G, WIDTHS_F, Entry, default_regs_f, make_entry, shared_median
from covshift.onestep._kernel import cv_results, fit_kernel
from covshift.onestep._pilot import out_of_fold_residuals
from covshift.onestep._search import Grid, Scoring
from covshift.ratio._overlap import effective_sample_size, is_reweighted, max_weight_share, warn_overlap
from covshift.ratio._search import search_least_squares
from covshift.theory import PluginBound

_PAPER = {
    "centers": "target",
    "shrink": "zero",
    "criterion": "objective",
    "selection": "best",
    "standardize": False,
    "bandwidth_f": "median",
    "loss_scale": 1.0,
    "start": "zero",
    "max_iter": 10,
    "tol": 0.0,
    "reg_f": tuple(float(v) for v in np.logspace(-3, 0, 7)),
    "reg_g": tuple(float(v) for v in np.logspace(-3, 0, 7)),
}


class OneStepKernel(BaseEstimator, ABC):
    """What regression and classification share: the door, the grids, the fit and its attributes."""

    _losses: tuple[str, ...]

    @classmethod
    def from_paper(cls, **overrides: Any) -> Self:
        """Algorithm 1 to the letter, with the choices of the paper's section 4.1.

        Centres from the target, g = beta'psi without shrinkage to one, selection of the best candidate by the
        objective on held-out rows, no standardisation, no intercept, alpha_0 = 0 (so that the first losses are
        those of f = 0), ten rounds, five folds, median bandwidths, and reg_f = reg_g = logspace(-3, 0, 7): the paper
        prints no grid, and the grid decides its tables. Its full search is `from_paper(bandwidth_f=
        np.geomspace(.1, 2, 9), bandwidth_g=np.geomspace(.1, 2, 9), reg_f=np.logspace(-3, 0, 9),
        reg_g=np.logspace(-3, 0, 9))`.
        """
        return cls(**(_PAPER | overrides))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def predict_weights(self, X: Any) -> np.ndarray:
        """The importance g(x) >= 0 at any rows, shape (n,); one everywhere if there was no target."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self._model.weights(X).astype(X.dtype, copy=False)

    def generalization_bound(self, delta: float = 0.05, *, tight: bool = True) -> PluginBound:
        """Theorem 2 of the paper with constants read off this model: R(f)^2 / 2 for the bounded loss, term by term.

        It is *not* a 1 - delta statement: class, centres and hyperparameters saw the data, C is the estimate of
        `risk_bound_`, and the default f has an intercept outside the ball (`covshift.theory.a_priori_bound` is one).
        `tight=False` takes the constants as printed. See `PluginBound` for `terms`, `vacuous`, `blame`, `n_needed`.
        """
        check_is_fitted(self)
        if self._theorem is None:
            raise ValueError(
                f"the theorems are about one real score, and this model has one for each of {len(self.classes_)} "
                "classes: fit two classes with loss='squared', 'hinge' or 'logistic'"
            )
        C = self.risk_bound_.constant
        if not np.isfinite(C):
            raise ValueError("C, the mean of the ratio on the target, was not estimated: fit with cv folds (cv >= 2)")
        return self._theorem.bound(max(C, 0.0), delta, tight, self._plan.m)

    @abstractmethod
    def _code_labels(self, y: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, float, float]:
        """(Y (n, K) in the units of the fit, middle, spread) from checked labels."""

    def _check_parameters(self) -> None:
        check_choice("loss", self.loss, self._losses)
        check_choice("centers", self.centers, ("target", "source", "both"))
        check_choice("shrink", self.shrink, ("zero", "one"))
        check_choice("criterion", self.criterion, ("corrected", "objective"))
        check_choice("selection", self.selection, ("average", "best"))
        check_choice("start", self.start, ("loss_free", "zero"))
        check_choice("basis", self.basis, BASES)
        check_flag("standardize", self.standardize)
        if isinstance(self.loss_scale, str):
            check_choice("loss_scale", self.loss_scale, ("auto", "mad"))
        else:
            check_number("loss_scale", self.loss_scale, 0.0, np.finfo(float).max, open_low=True)
        check_count("n_centers", self.n_centers)
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol, 0.0)
        check_number("variance_weight", self.variance_weight, 0.0)
        check_number("sharpness", self.sharpness, 0.0)
        check_number("coupling", self.coupling, 0.0, np.finfo(float).max)

    def _scoring(self, has_target: bool) -> Scoring:
        """The corrected score is defined by squared errors; other classification losses use the objective."""
        criterion = self.criterion if self.loss in ("squared", "tukey", "welsch") else "objective"
        v = self.variance_weight if has_target else 0.0
        return Scoring(criterion, v, self.selection, self.sharpness, uniform=not has_target)

    def _fit(self, X: np.ndarray, y: np.ndarray, X_target: Any, sample_weight: Any, intercept: bool) -> Self:
        self._check_parameters()
        s = check_weights(sample_weight, X)
        if unwrap_target(X_target) is None:
            no_target(self)
        X_target = check_target(self, X_target, dtype=[np.float64, np.float32])
        Y, self._y_middle, self._y_spread = self._code_labels(y, s)
        rng = as_generator(self.random_state)
        entry = make_entry(
            X,
            Y,
            s,
            X_target,
            Y.argmax(axis=1) if Y.shape[1] > 1 else Y[:, 0],
            standardize=self.standardize,
            intercept=intercept,
            basis=self.basis,
            n_centers=self.n_centers,
            centers=self.centers,
            rng=rng,
        )
        if (
            entry.sample.basis.has_bandwidth
            and entry.sample.basis.n_features < self.n_centers
            and X_target is not None
        ):
            warnings.warn(
                f"n_centers={self.n_centers}, but there are only {entry.sample.basis.n_features} distinct rows to "
                f"take centres from (centers={self.centers!r}): all of them are used",
                stacklevel=3,
            )
        self.centers_ = getattr(entry.sample.basis, "centers", np.empty((0, X.shape[1])))
        median = shared_median(entry, self.centers_) if len(self.centers_) else 1.0
        self.centers_ = entry.units.invert(self.centers_)
        folds = self._folds(entry, int(rng.integers(2**31 - 1)))
        grid = self._grid(entry, median, folds)
        plan = self._make_plan(entry, grid, folds, X_target is not None)
        self._run(entry, grid, folds, plan)
        self._report(X, s, X_target)
        return self

    def _fixed_regs(self) -> bool:
        """Whether both regularisations are numbers: then bandwidth_f="auto" is the median, nothing is searched."""
        return isinstance(self.reg_f, Real) and isinstance(self.reg_g, Real)

    def _folds(self, entry: Entry, seed: int) -> list[Fold] | None:
        """Paired folds; None where a single candidate needs none and the samples are too small to cut."""
        n, n_target = len(entry.sample.X), len(entry.sample.X_target)
        widths = (self.bandwidth_f, self.bandwidth_g)
        single = self._fixed_regs() and all(np.ndim(v) == 0 and v != "ulsif" for v in widths)
        if single and (min(n, n_target) < 2 or self.loss_scale != "mad" and isinstance(self.cv, int) and n < 4):
            return None
        return entry.folds(self.cv, isinstance(self, ClassifierMixin), seed)

    def _grid(self, entry: Entry, median: float, folds: list[Fold] | None) -> Grid:
        """Words become numbers; without a target g is held at one."""
        widths = WIDTHS_F if entry.sample.basis.has_bandwidth and not self._fixed_regs() else (1.0,)
        around = tuple(float(v) for v in median * np.geomspace(0.1, 2.0, 9))
        words: dict[str, dict[str, tuple[float, ...]]] = {
            "reg_f": {"auto": default_regs_f(entry.sample.n, self._kind)},
            "bandwidth_f": {"median": (median,), "auto": tuple(width * median for width in widths)},
            "reg_g": {"auto": REGS_G, "ulsif": REGS_G},
            "bandwidth_g": {"median": (median,), "ulsif": around},
        }

        def numbers(name: str) -> tuple[float, ...]:
            infinite = name == "reg_g" and self.shrink == "one"
            value = check_grid(name, getattr(self, name), words=tuple(words[name]), allow_inf=infinite)
            return words[name][value] if isinstance(value, str) else value

        bandwidths_f, regs_f = numbers("bandwidth_f"), numbers("reg_f")
        bandwidths_g, regs_g = numbers("bandwidth_g"), numbers("reg_g")
        if not entry.has_target:
            return Grid(bandwidths_f, (median,), regs_f, (np.inf,))
        by_ulsif = [isinstance(v, str) and v == "ulsif" for v in (self.bandwidth_g, self.reg_g)]
        if any(by_ulsif) and folds is not None:
            sample = entry.sample
            finite = [reg for reg in regs_g if np.isfinite(reg)] or list(REGS_G)
            found = search_least_squares(
                sample.X, sample.X_target, sample.s, sample.basis, bandwidths_g, finite, folds
            )
            bandwidths_g = (found.bandwidth,) if by_ulsif[0] else bandwidths_g
            regs_g = (found.reg,) if by_ulsif[1] else regs_g
        return Grid(bandwidths_f, bandwidths_g, regs_f, regs_g)

    def _make_plan(self, entry: Entry, grid: Grid, folds: list[Fold] | None, has_target: bool) -> Plan:
        shrink = self.shrink if has_target else "one"
        plan = Plan(
            self._loss(1.0), shrink, self.start, self.max_iter, self.tol, self.coupling if has_target else 0.0
        )
        if self.loss_scale == "auto" or isinstance(self, ClassifierMixin):
            return plan
        if self.loss_scale == "mad":
            residuals, frequencies = out_of_fold_residuals(entry, grid, folds)
            scale = 1.4826 * weighted_median(np.abs(residuals), frequencies)
            return replace(plan, loss=self._loss(scale if scale > 0 else 1.0))
        return replace(plan, loss=self._loss(float(self.loss_scale)))

    @abstractmethod
    def _loss(self, scale: float) -> Loss:
        """The loss of the fit, with scale s in the units of the fit."""

    def _run(self, entry: Entry, grid: Grid, folds: list[Fold] | None, plan: Plan) -> None:
        scoring = self._scoring(entry.has_target)
        bounded = {"regression": "welsch" if self.loss == "welsch" else "tukey"}.get(self._kind, "zero_one")
        factor = plan.loss.domination()[bounded]
        with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
            fit = fit_kernel(entry, grid, folds, plan, scoring, factor, self._say, self.n_jobs)
        self._model, self._theorem, self._plan = fit.model, fit.theorem, plan
        self.loss_scale_ = getattr(plan.loss, "scale", 1.0)
        self.criterion_ = scoring.criterion
        self.risk_bound_ = fit.risk_bound
        self.averaging_weights_ = fit.model.q
        self.best_params_ = {name: float(v[0]) for name, v in grid.table(fit.refit.index[:1]).items()}
        self.cv_results_ = cv_results(grid, fit.result)
        self.n_iter_ = int(fit.refit.n_iter[0])
        self.history_ = [
            {"round": t + 1, "objective": float(J), "objective_unclipped": float(unclipped)}
            for t, (J, unclipped) in enumerate(zip(fit.refit.J, fit.refit.J_unclipped, strict=True))
        ]

    def _report(self, X: np.ndarray, s: np.ndarray | None, X_target: np.ndarray | None) -> None:
        """Fitted attributes that users read, and the warning that weights rest on too little."""
        model = self._model
        with np.errstate(over="ignore", under="ignore"):
            w = model.weights(X)
        self.weights_ = w.astype(X.dtype, copy=False)
        self.ess_ = effective_sample_size(w, s)
        self.max_weight_share_ = max_weight_share(w, s)
        n = float(len(w)) if s is None else float(s.sum())
        self.adapted_ = is_reweighted(self.ess_, n)
        coef, intercept = model.coef * self._y_spread, model.intercept * self._y_spread + self._y_middle
        if len(np.unique(model.bandwidths_f)) == 1:
            coef, intercept = coef @ model.q, intercept @ model.q  # (b, K), (K,)
        coef, intercept = coef.T, intercept.T
        self.coef_ = coef[..., 0, :] if coef.shape[-2] == 1 else coef
        self.intercept_ = intercept[..., 0] if intercept.shape[-1] == 1 else intercept
        one_average = model.shrink == "zero" and len(np.unique(model.bandwidths_g)) == 1
        self.ratio_coef_ = model.beta @ model.q if one_average or len(model.q) == 1 else model.beta.T
        if X_target is not None:
            warn_overlap(self, w if s is None else w[s > 0], X if s is None else X[s > 0], X_target, s=_positive(s))

    def _say(self, message: str) -> None:
        if self.verbose:
            print(f"[{type(self).__name__}] {message}", file=sys.stderr, flush=True)

    def _scores(self, X: Any) -> tuple[np.ndarray, np.dtype]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self._model.scores(X) * self._y_spread + self._y_middle, X.dtype


def _positive(s: np.ndarray | None) -> np.ndarray | None:
    return None if s is None else s[s > 0]
