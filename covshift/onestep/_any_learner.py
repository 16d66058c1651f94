"""`OneStep`: the one-step approach with any scikit-learn learner as f."""

from __future__ import annotations

import sys
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d

from covshift._checks import (
    as_generator,
    check_choice,
    check_count,
    check_grid,
    check_number,
    check_weights,
    no_target,
    refuse_target_as_labels,
    unwrap_target,
)
from covshift._learner import check_takes_weights, fit_weighted
from covshift._split import Fold
from covshift.exceptions import AllWeightsZeroError
from covshift.losses import get_loss
from covshift.onestep._cross_fit import CrossFit, GSide, Learner, cross_corrected, cross_fit, cross_objective
from covshift.onestep._door import Entry, make_entry, shared_median
from covshift.onestep._g_step import importance, make_systems
from covshift.onestep._inputs import RatioInputs
from covshift.onestep._sample import Prepared
from covshift.onestep._scores import reference_weights, uniform_reference
from covshift.onestep._search import Scoring, averaging_weights
from covshift.ratio._overlap import effective_sample_size, is_reweighted, max_weight_share, warn_overlap

_REGS_G = (0.01, 0.1, 1.0, 10.0)
_MIN_PROBABILITY = 1e-6


class OneStep(MetaEstimatorMixin, BaseEstimator):
    """One-step covariate shift adaptation with any learner that takes `sample_weight` as f.

    f's step of Algorithm 1 is a weighted fit, and g's step needs only a loss a row, so f may be gradient boosting, a
    forest, a pipeline, ... The losses that g sees are those of fold models on rows that they were not fitted to:
    a flexible learner's losses on its own rows say nothing.

    Parameters
    ----------
    estimator : a regressor or classifier whose `fit` takes `sample_weight` (also as the last step of a pipeline);
        frames reach it unconverted. Preprocessing belongs inside: OneStep(make_pipeline(...)).
    transformer_g : what turns rows into the numbers that g sees; None takes numeric columns, z-scored on pooled rows,
        and refuses others by name
    loss : what g is shown. Regression: "squared", "tukey", "welsch", "absolute", "huber" of the residual over the
        standard deviation of y; classification: "squared" (of scores 2p - 1), "zero_one", "cross_entropy".
    n_centers, centers, bandwidth_g, shrink, coupling, tol, cv, random_state : as in `OneStepRegressor`
    reg_g : number, sequence or "auto" ((0.01, 0.1, 1, 10), and with shrink="one" also infinity: the unweighted
        learner); each candidate costs about `max_iter` x folds fits
    criterion : "corrected" (weighted held-out squared error of the scores plus what the fold models disagree on at
        target rows) or "objective" (the bound on held-out rows)
    selection : "best", or "average" of candidates by their scores
    out_of_fold : False shows g the losses of a fit on its own rows, as Algorithm 1 is printed
    max_iter : rounds at most, the loss-free one included
    n_jobs : parallel candidates

    Attributes
    ----------
    estimator_ : f of the best candidate, fitted to all rows;  estimators_ : of all kept candidates
    ratio_coef_, centers_, weights_, ess_, max_weight_share_, adapted_, history_, n_iter_, cv_results_,
    best_params_, averaging_weights_ : as in `OneStepRegressor`

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from covshift import OneStep
    >>> rng = np.random.default_rng(0)
    >>> X, X_new = rng.normal(0, 1, (200, 1)), rng.normal(1, 0.5, (200, 1))
    >>> y = X[:, 0] ** 2 + rng.normal(0, 0.1, 200)
    >>> plain = np.mean((Ridge().fit(X, y).predict(X_new) - X_new[:, 0] ** 2) ** 2)
    >>> model = OneStep(Ridge(), random_state=0).fit(X, y, X_target=X_new)
    >>> bool(np.mean((model.predict(X_new) - X_new[:, 0] ** 2) ** 2) < 0.5 * plain)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        transformer_g: Any = None,
        loss: str = "squared",
        n_centers: int = 50,
        bandwidth_g: Any = "median",
        reg_g: Any = "auto",
        centers: str = "both",
        shrink: str = "one",
        criterion: str = "corrected",
        selection: str = "best",
        out_of_fold: bool = True,
        coupling: float = 1.0,
        max_iter: int = 4,
        tol: float = 1e-3,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.transformer_g = transformer_g
        self.loss = loss
        self.n_centers = n_centers
        self.bandwidth_g = bandwidth_g
        self.reg_g = reg_g
        self.centers = centers
        self.shrink = shrink
        self.criterion = criterion
        self.selection = selection
        self.out_of_fold = out_of_fold
        self.coupling = coupling
        self.max_iter = max_iter
        self.tol = tol
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score = True  # by the standards of data without any shift
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any, *, X_target: Any = None, sample_weight: Any = None) -> Self:
        """Fit to labelled source rows (X, y) and unlabelled target rows; without `X_target` all weights are one."""
        check_takes_weights(self, self.estimator)
        self._check_parameters()
        refuse_target_as_labels(y)
        inputs = RatioInputs(self, self.transformer_g)
        X, y, X_target, G, G_target = inputs.fit(X, y, unwrap_target(X_target))
        if X_target is None:
            no_target(self)
        s = check_weights(sample_weight, G)
        rng = as_generator(self.random_state)
        Y, codes = self._code_labels(y, s)
        entry = make_entry(
            G,
            Y,
            s,
            G_target,
            codes,
            standardize=True,
            intercept=False,
            basis="gaussian",
            n_centers=self.n_centers,
            centers=self.centers,
            rng=rng,
        )
        kept = np.arange(len(Y)) if entry.kept is None else entry.kept
        rows = X if entry.kept is None else _safe_indexing(X, kept)
        labels = y[kept]
        folds = entry.folds(self.cv, is_classifier(self), int(rng.integers(2**31 - 1)))
        learner = self._learner(rows, labels, X_target if X_target is not None else rows, entry.sample.Y)
        self._search(entry, folds, learner)
        frequencies = np.ones(len(labels)) if entry.sample.s is None else entry.sample.s
        self.estimators_ = [learner.fit(np.arange(len(labels)), fit.w * frequencies) for fit in self._kept_fits]
        self.estimator_ = self.estimators_[0]
        self._report(inputs, entry, G, s, G_target)
        del self._kept_fits
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions of f; of the average of the kept candidates where there are several."""
        X = self._check_rows(X)
        if len(self.estimators_) == 1:
            return self.estimator_.predict(X)
        if is_classifier(self):
            votes = sum(q * _probabilities(f, X, self.classes_) for q, f in self._mixture())
            return self.classes_[np.argmax(votes, axis=1)]
        return sum(q * f.predict(X) for q, f in self._mixture())

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, shape (n, K), averaged over the kept candidates."""
        X = self._check_rows(X)
        return sum(q * _probabilities(f, X, self.classes_) for q, f in self._mixture())

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of f, averaged over the kept candidates."""
        X = self._check_rows(X)
        return sum(q * f.decision_function(X) for q, f in self._mixture())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The inner learner's own score (R^2 or accuracy)."""
        X = self._check_rows(X)
        if len(self.estimators_) == 1:
            return self.estimator_.score(X, y, sample_weight=sample_weight)
        if is_classifier(self):
            return float(np.average(self.predict(X) == np.asarray(y), weights=sample_weight))
        error = np.average((np.asarray(y) - self.predict(X)) ** 2, weights=sample_weight)
        middle = np.average(y, weights=sample_weight)
        return float(1.0 - error / np.average((np.asarray(y) - middle) ** 2, weights=sample_weight))

    def predict_weights(self, X: Any) -> np.ndarray:
        """The importance g(x) >= 0 at any rows, shape (n,)."""
        check_is_fitted(self)
        return self._weights(self._inputs.for_g(X))

    def _check_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._inputs.for_f(X)

    def _mixture(self) -> Any:
        return zip(self.averaging_weights_, self.estimators_, strict=True)

    def _check_parameters(self) -> None:
        classes = ("squared", "zero_one", "cross_entropy")
        values = ("squared", "tukey", "welsch", "absolute", "huber")
        check_choice("loss", self.loss, classes if is_classifier(self) else values)
        check_choice("centers", self.centers, ("target", "source", "both"))
        check_choice("shrink", self.shrink, ("zero", "one"))
        check_choice("criterion", self.criterion, ("corrected", "objective"))
        check_choice("selection", self.selection, ("average", "best"))
        check_count("n_centers", self.n_centers)
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol, 0.0)
        check_number("coupling", self.coupling, 0.0, np.finfo(float).max)

    def _code_labels(self, y: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """(Y (n, K) in the units of the losses, what a stratified split looks at)."""
        if is_classifier(self):
            check_classification_targets(y)
            self.classes_ = np.unique(y if s is None else y[s > 0])  # a class without weight does not exist
            if len(self.classes_) < 2:
                raise ValueError(
                    f"y has one class only ({self.classes_[0]!r}) among rows with weight: a classifier needs at "
                    "least 2 classes"
                )
            codes = np.searchsorted(self.classes_, y)
            return np.where(codes[:, None] == np.arange(len(self.classes_)), 1.0, -1.0), codes.astype(float)
        z = y.astype(np.float64)
        self._middle = float(np.average(z, weights=s))
        spread = float(np.sqrt(np.average((z - self._middle) ** 2, weights=s)))
        self._spread = spread if spread > 0 else 1.0
        z = (z - self._middle) / self._spread
        return z[:, None], z

    def _learner(self, X: Any, y: np.ndarray, X_target: Any, Y: np.ndarray) -> Learner:
        """The alternation's view of the learner, on rows of positive frequency."""
        loss = None if is_classifier(self) else get_loss(self.loss)

        def fit(rows: np.ndarray, w: np.ndarray) -> Any:
            rows, w = rows[w > 0], w[w > 0]
            if not len(rows) or (is_classifier(self) and len(np.unique(y[rows])) < 2):
                return None
            return fit_weighted(clone(self.estimator), _safe_indexing(X, rows), y[rows], w)

        def raw(model: Any, at: Any) -> np.ndarray:
            if is_classifier(self):
                return 2.0 * _probabilities(model, at, self.classes_) - 1.0
            return ((model.predict(at) - self._middle) / self._spread)[:, None]

        def losses(F: np.ndarray, rows: np.ndarray) -> np.ndarray:
            if loss is not None:
                return loss.value(F[:, 0], Y[rows, 0])
            if self.loss == "squared":
                return 0.5 * ((F - Y[rows]) ** 2).sum(axis=1)
            own = Y[rows].argmax(axis=1)
            if self.loss == "zero_one":
                return (F.argmax(axis=1) != own).astype(float)
            p = 0.5 * (1.0 + F[np.arange(len(rows)), own])
            return -np.log(np.maximum(p, _MIN_PROBABILITY))

        return Learner(
            fit, lambda model, rows: raw(model, _safe_indexing(X, rows)), lambda model: raw(model, X_target), losses
        )

    def _grid(self, entry: Entry, median: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        bandwidths = check_grid("bandwidth_g", self.bandwidth_g, words=("median",))
        regs = check_grid("reg_g", self.reg_g, words=("auto",), allow_inf=self.shrink == "one")
        if isinstance(regs, str):
            regs = (*_REGS_G, np.inf) if self.shrink == "one" else _REGS_G
        if not entry.has_target:
            return (median,), (np.inf,)
        return ((median,) if isinstance(bandwidths, str) else bandwidths), regs

    def _search(self, entry: Entry, folds: list[Fold], learner: Learner) -> None:
        """Alternate for every candidate, score them, keep the best or an average."""
        sample, shrink = entry.sample, self.shrink if entry.has_target else "one"
        centers = getattr(sample.basis, "centers", np.empty((0, 1)))
        bandwidths, regs = self._grid(entry, shared_median(entry, centers))
        sides = [_g_side(Prepared.of(sample, (sigma,)), folds) for sigma in bandwidths]
        if entry.has_target:
            # One reference for all candidates: uLSIF over the whole grid of g, as in the kernel estimators.
            systems = [[side.fold_systems[k] for side in sides] for k in range(len(folds))]
            held_out = tuple(_joined([side.held_out[k] for side in sides]) for k in range(len(folds)))
            reference = reference_weights(systems, held_out, regs, 1.0)
        else:
            reference = uniform_reference(tuple(sides[0].held_out))
        candidates = [(j, reg) for j in range(len(bandwidths)) for reg in regs]
        coupling = self.coupling if entry.has_target else 0.0
        v = 1.0 if entry.has_target and not is_classifier(self) else 0.0
        scoring = Scoring(self.criterion, v, self.selection)

        def run(j: int, reg: float) -> tuple[CrossFit, float]:
            fit = cross_fit(
                learner,
                sides[j],
                folds,
                reg,
                shrink,
                out_of_fold=self.out_of_fold,
                coupling=coupling,
                max_iter=self.max_iter,
                tol=self.tol,
            )
            if self.verbose:
                print(f"[OneStep] bandwidth_g={bandwidths[j]:.3g} reg_g={reg:.3g}", file=sys.stderr, flush=True)
            if fit.failed:
                return fit, np.inf
            if self.criterion == "objective":
                return fit, cross_objective(fit, sides[j], folds, reg, shrink, coupling)
            return fit, cross_corrected(
                fit, learner, sample.Y, folds, reference.weights, sample.s, scoring.variance_weight
            )

        results = Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(run)(*candidate) for candidate in candidates)
        S = np.array([score for _, score in results])
        if not np.isfinite(S).any():
            raise AllWeightsZeroError(
                f"no candidate is left (bandwidth_g={bandwidths}, reg_g={regs}): in some fold every weight was "
                "clipped to zero, or only rows of one class keep weight. Use a larger bandwidth_g or reg_g, "
                "shrink='one', fewer folds (cv), or more source rows"
            )
        index, q = averaging_weights(S, reference.n_eff, scoring)
        params = [{"bandwidth_g": bandwidths[j], "reg_g": reg} for j, reg in candidates]
        self._kept_fits = [results[i][0] for i in index]
        self._g = [(bandwidths[candidates[i][0]], results[i][0].beta) for i in index]
        self._shrink, self.averaging_weights_ = shrink, q
        self.cv_results_ = {"params": params, "score": S, "rank": np.argsort(np.argsort(S, kind="stable")) + 1}
        self.best_params_ = params[int(index[0])]
        self.history_ = self._kept_fits[0].history
        self.n_iter_ = len(self.history_)

    def _report(
        self, inputs: RatioInputs, entry: Entry, G: np.ndarray, s: np.ndarray | None, G_target: np.ndarray | None
    ) -> None:
        self._inputs, self._units, self._basis = inputs, entry.units, entry.sample.basis
        self.centers_ = entry.units.invert(getattr(entry.sample.basis, "centers", np.empty((0, G.shape[1]))))
        self.ratio_coef_ = self._g[0][1] if len(self._g) == 1 else np.stack([beta for _, beta in self._g])
        self.weights_ = self._weights(G)
        self.ess_, self.max_weight_share_ = (
            effective_sample_size(self.weights_, s),
            max_weight_share(self.weights_, s),
        )
        n = float(len(G)) if s is None else float(s.sum())
        self.adapted_ = is_reweighted(self.ess_, n)
        if G_target is not None:
            seen = slice(None) if s is None else s > 0
            warn_overlap(self, self.weights_[seen], G[seen], G_target, s=None if s is None else s[seen])

    def _weights(self, G: np.ndarray) -> np.ndarray:
        prepared = self._basis.prepare(self._units.apply(G))
        parts = (
            q * importance(self._basis.features(prepared, sigma), beta, self._shrink)
            for q, (sigma, beta) in zip(self.averaging_weights_, self._g, strict=True)
        )
        return sum(parts, start=np.zeros(_num_samples(G)))


def _g_side(prepared: Prepared, folds: list[Fold]) -> GSide:
    train, held_out = zip(*(prepared.fold(fold) for fold in folds), strict=True)
    return GSide(prepared.g, make_systems(prepared.g)[0], [make_systems(rows)[0] for rows in train], list(held_out))


def _joined(sides: list[Any]) -> Any:
    """Rows of one fold for several bandwidths as one `GRows`."""
    first = sides[0]
    return type(first)([g.Psi[0] for g in sides], [g.Psi_target[0] for g in sides], [g.h[0] for g in sides], first.s)


def _probabilities(model: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """(n, K) in the order of `classes`; votes of zero and one where the learner has no probabilities."""
    out = np.zeros((_num_samples(X), len(classes)))
    if hasattr(model, "predict_proba"):
        out[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X)
        return out
    out[np.arange(len(out)), np.searchsorted(classes, column_or_1d(model.predict(X)))] = 1.0
    return out
