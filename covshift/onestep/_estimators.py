"""`OneStepRegressor` and `OneStepClassifier`: Algorithm 1 with linear-in-parameter models."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from covshift._checks import (
    check_source,
    check_weights,
    refuse_target_as_labels,
)
from covshift.losses import Loss, get_loss
from covshift.onestep._base import OneStepKernel

_BINARY = ("hinge", "logistic")


class OneStepRegressor(RegressorMixin, OneStepKernel):
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


class OneStepClassifier(ClassifierMixin, OneStepKernel):
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
