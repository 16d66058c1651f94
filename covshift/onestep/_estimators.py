"""`OneStepRegressor` and `OneStepClassifier`: Algorithm 1 with linear-in-parameter models."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from covshift._checks import (
    as_generator,
    check_choice,
    check_count,
    check_flag,
    check_grid,
    check_number,
    check_source,
    check_target,
    check_weights,
    no_target,
    refuse_target_as_labels,
    unwrap_target,
)
from covshift._split import Fold
from covshift.basis import BASES, weighted_median
from covshift.losses import Loss, get_loss
from covshift.onestep._alternate import Plan
from covshift.onestep._door import REGS_G, WIDTHS_F, Entry, default_regs_f, make_entry, shared_median
from covshift.onestep._kernel import cv_results, fit_kernel
from covshift.onestep._pilot import out_of_fold_residuals
from covshift.onestep._search import Grid, Scoring
from covshift.ratio._overlap import effective_sample_size, max_weight_share, warn_overlap
from covshift.ratio._search import search_least_squares
from covshift.theory import PluginBound

# Weights whose effective size is this close to all rows are the unweighted learner's for all practical purposes.
_UNWEIGHTED_ESS = 0.99
_BINARY = ("hinge", "logistic")
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


class _OneStepKernel(BaseEstimator, ABC):
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
        self.adapted_ = bool(self.ess_ < _UNWEIGHTED_ESS * n)
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


class OneStepRegressor(RegressorMixin, _OneStepKernel):
    """f and g in one alternation: min over f, g of (mean_s l(f) g)^2 + m^2 (mean_s g^2 - 2 mean_t g).

    f = b + alpha'phi predicts, g >= 0 is the importance p_target / p_source; both are sums of Gaussians on shared
    centres, fitted in turn (Algorithm 1 of the paper). A scalar hyperparameter is used as it is; a sequence is a
    grid that `fit` searches by cross-validation, without any target label.

    It is for covariate shift: p(y|x) must be the same for source and target, and the source must visit where the
    target is. Where either fails no weighting helps; `OverlapWarning` tells of the second.

    Parameters
    ----------
    loss : "squared", "tukey" or "welsch" (robust; fitted by iteratively reweighted least squares)
    n_centers : number of basis functions b
    bandwidth_f, bandwidth_g : number, sequence, or "median" (distance of all rows to the centres); for f also "auto"
        (1, 2 and 4 times the median; the median where reg_f and reg_g are numbers), for g also "ulsif", the
        bandwidth that uLSIF's own cross-validation picks. In z-scored units where `standardize` is on.
    reg_f, reg_g : number, sequence, or "auto" (logspace(-6, 1, 11), above 100 rows times 100/n, and
        logspace(-2, 2, 5)); for g also "ulsif".
        With shrink="one", reg_g=inf is the unweighted learner. All weights times c equals reg_f divided by c.
    centers : "both" (half from target, half from source), "target" (the paper's) or "source"
    shrink : "one" (g = max(1 + beta'psi, 0), heavy regularisation is the unweighted learner) or "zero" (the paper's
        g = max(beta, 0)'psi)
    criterion : "corrected" (importance-weighted held-out error plus what the fold models disagree on at target rows)
        or "objective" (the paper's, the bound on held-out rows)
    selection : "average" (of candidates, by their scores) or "best"
    variance_weight : v of the corrected criterion, the weight of what fold models disagree on more at target rows
    sharpness : of the average: q_c ~ exp(-sharpness n_eff (S_c / S_min - 1)); 1/2 is nearly the best
    standardize : z-score inputs on pooled rows, centre and scale y by the source, fit an intercept
    loss_scale : s in l(r / s), in units of the scaled y: "auto" is 1, "mad" 1.4826 MAD of an unweighted pilot's
        out-of-fold residuals, or a number
    basis : name of the basis ("gaussian", "linear")
    start : "loss_free" (the first g ignores f) or "zero" (the first losses are those of f = 0)
    coupling : factor of the loss term in g's step; 1 is the paper, 0 the control in which g never sees f
    max_iter, tol : rounds at most, and the relative change of the objective at which a candidate stops
    cv : int, splitter, or iterable of source index pairs; target rows are cut into as many seeded folds
    n_jobs : threads over folds
    random_state : decides centres and folds
    verbose : progress on stderr

    Attributes
    ----------
    coef_, intercept_, ratio_coef_, centers_ : f and g on the basis; one row a candidate where bandwidths differ
    weights_ : (n,) g at the source rows;  ess_, max_weight_share_ : how many rows they are worth, the largest share
    adapted_ : False where the weights are uniform to within 1 % of the effective sample size
    history_ : objective of each round of the top candidate, with g as used and before clipping;  n_iter_
    cv_results_, best_params_, averaging_weights_ : the search
    risk_bound_ : an estimate of the upper bound of the target risk, with what it rests on; never a guarantee
    loss_scale_, criterion_ : as used

    Examples
    --------
    >>> import numpy as np
    >>> from covshift import OneStepRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, X_new = rng.normal(0, 1, (200, 1)), rng.normal(1, 0.5, (200, 1))
    >>> y = np.sinc(X[:, 0]) + rng.normal(0, 0.1, 200)
    >>> model = OneStepRegressor(random_state=0).fit(X, y, X_target=X_new)
    >>> bool(np.mean((model.predict(X_new) - np.sinc(X_new[:, 0])) ** 2) < 0.01)
    True
    """

    _losses = ("squared", "tukey", "welsch")
    _kind = "regression"

    def __init__(
        self,
        loss: str = "squared",
        *,
        n_centers: int = 50,
        bandwidth_f: Any = "auto",
        bandwidth_g: Any = "median",
        reg_f: Any = "auto",
        reg_g: Any = "auto",
        centers: str = "both",
        shrink: str = "one",
        criterion: str = "corrected",
        selection: str = "average",
        variance_weight: float = 1.0,
        sharpness: float = 1 / 32,
        standardize: bool = True,
        loss_scale: str | float = "auto",
        basis: str = "gaussian",
        start: str = "loss_free",
        coupling: float = 1.0,
        max_iter: int = 4,
        tol: float = 1e-4,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.n_centers = n_centers
        self.bandwidth_f = bandwidth_f
        self.bandwidth_g = bandwidth_g
        self.reg_f = reg_f
        self.reg_g = reg_g
        self.centers = centers
        self.shrink = shrink
        self.criterion = criterion
        self.selection = selection
        self.variance_weight = variance_weight
        self.sharpness = sharpness
        self.standardize = standardize
        self.loss_scale = loss_scale
        self.basis = basis
        self.start = start
        self.coupling = coupling
        self.max_iter = max_iter
        self.tol = tol
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, *, X_target: Any = None, sample_weight: Any = None) -> Self:
        """Fit to labelled source rows (X, y) and unlabelled target rows.

        Without `X_target` the model is the plain regularised learner, and a `NoTargetWarning` says so.
        `sample_weight` are frequencies of the source rows.
        """
        refuse_target_as_labels(y)
        X, y = check_source(self, X, y, dtype=[np.float64, np.float32], y_numeric=True, ensure_min_samples=2)
        return self._fit(X, y, X_target, sample_weight, intercept=self.standardize)

    def predict(self, X: Any) -> np.ndarray:
        """f(x) at rows X, shape (n,)."""
        F, dtype = self._scores(X)
        return F[:, 0].astype(dtype, copy=False)

    def _loss(self, scale: float) -> Loss:
        return get_loss(self.loss, scale=scale)

    def _code_labels(self, y: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, float, float]:
        y = y.astype(np.float64, copy=False)
        if not self.standardize:
            return y[:, None], 0.0, 1.0
        largest = float(np.abs(y).max()) or 1.0  # squares of huge or tiny labels must not leave the range of doubles
        z = y / largest
        middle = float(np.average(z, weights=s))
        spread = float(np.sqrt(np.average((z - middle) ** 2, weights=s)))
        spread = spread if spread > 1e-14 else 1.0
        return ((z - middle) / spread)[:, None], middle * largest, spread * largest


class OneStepClassifier(ClassifierMixin, _OneStepKernel):
    """f and g in one alternation, for two classes (labels -1 and +1 inside) or more (one against the rest, one g).

    The objective, Algorithm 1 and all parameters are those of `OneStepRegressor`; what differs:

    loss : "squared" ((1 - y f)^2, closed form), "hinge" (weighted SVM), "logistic" or "cross_entropy" (softmax, any
        number of classes). More than two classes need "squared" or "cross_entropy".
    selection : "best" by default, the safer choice for classification; bandwidth_f="median"; reg_f="auto" is
        logspace(-3, 1, 7), above 100 rows times 100/n
    variance_weight : 0 by default: only the sign of a score counts, so what fold models disagree on says little
    criterion : "corrected" is defined by squared errors; hinge, logistic and cross_entropy use "objective"
        (`criterion_` tells)

    There is no intercept: the source's class mean is what the shift changes. `predict_proba` exists where the loss
    gives probabilities (logistic, cross_entropy).

    Examples
    --------
    >>> import numpy as np
    >>> from covshift import OneStepClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, X_new = rng.normal(0, 1, (100, 2)), rng.normal(1, 1, (100, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "left", "right")
    >>> model = OneStepClassifier(random_state=0).fit(X, y, X_target=X_new)
    >>> bool(model.score(X_new, np.where(X_new[:, 0] > X_new[:, 1], "left", "right")) > 0.85)
    True
    """

    _losses = ("squared", *_BINARY, "cross_entropy")
    _kind = "classification"

    def __init__(
        self,
        loss: str = "squared",
        *,
        n_centers: int = 50,
        bandwidth_f: Any = "median",
        bandwidth_g: Any = "median",
        reg_f: Any = "auto",
        reg_g: Any = "auto",
        centers: str = "both",
        shrink: str = "one",
        criterion: str = "corrected",
        selection: str = "best",
        variance_weight: float = 0.0,
        sharpness: float = 1 / 2,
        standardize: bool = True,
        loss_scale: str | float = "auto",
        basis: str = "gaussian",
        start: str = "loss_free",
        coupling: float = 1.0,
        max_iter: int = 4,
        tol: float = 1e-4,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.n_centers = n_centers
        self.bandwidth_f = bandwidth_f
        self.bandwidth_g = bandwidth_g
        self.reg_f = reg_f
        self.reg_g = reg_g
        self.centers = centers
        self.shrink = shrink
        self.criterion = criterion
        self.selection = selection
        self.variance_weight = variance_weight
        self.sharpness = sharpness
        self.standardize = standardize
        self.loss_scale = loss_scale
        self.basis = basis
        self.start = start
        self.coupling = coupling
        self.max_iter = max_iter
        self.tol = tol
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, *, X_target: Any = None, sample_weight: Any = None) -> Self:
        """Fit to labelled source rows (X, y) and unlabelled target rows; see `OneStepRegressor.fit`."""
        refuse_target_as_labels(y)
        X, y = check_source(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(y)
        s = check_weights(sample_weight, X)
        self.classes_ = np.unique(y if s is None else y[s > 0])  # a row of weight zero does not exist, nor its class
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class only ({self.classes_[0]!r}) among rows with weight: a classifier needs at least 2 "
                "classes"
            )
        if len(self.classes_) > 2 and self.loss in _BINARY:
            raise ValueError(
                f"Only binary classification is supported by loss={self.loss!r}, y has {len(self.classes_)} classes: "
                "use loss='cross_entropy' (softmax) or loss='squared' (one against the rest)"
            )
        return self._fit(X, np.searchsorted(self.classes_, y), X_target, s, intercept=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.loss not in _BINARY
        return tags

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,), positive for `classes_[1]`, for two classes; (n, K) for more."""
        F, dtype = self._scores(X)
        if F.shape[1] == 1:
            return F[:, 0].astype(dtype, copy=False)
        if F.shape[1] == 2:
            return (F[:, 1] - F[:, 0]).astype(dtype, copy=False)
        return F.astype(dtype, copy=False)

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest score, shape (n,)."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    @available_if(lambda self: self.loss in ("logistic", "cross_entropy"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, shape (n, K), in the order of `classes_`."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            p = 0.5 * (1.0 + np.tanh(0.5 * scores))
            return np.column_stack([1.0 - p, p])
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def _loss(self, scale: float) -> Loss:
        return get_loss(self.loss)

    def _code_labels(self, y: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, float, float]:
        if len(self.classes_) == 2 and self.loss != "cross_entropy":
            return np.where(y == 1, 1.0, -1.0)[:, None], 0.0, 1.0
        return np.where(y[:, None] == np.arange(len(self.classes_)), 1.0, -1.0), 0.0, 1.0
