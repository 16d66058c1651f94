"""KLIEP: the maximum-likelihood fit of the density ratio, solved to a certified optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covshift._checks import as_generator, check_choice, check_count, check_grid, check_number
from covshift._split import Fold
from covshift.basis import Basis
from covshift.blocks import map_blocks, sum_over_blocks
from covshift.ratio._base import RatioEstimator, RatioSample
from covshift.ratio._features import make_basis
from covshift.ratio._least_squares import moments
from covshift.ratio._mixture import maximise_mean_log

__all__ = ["KLIEP"]

# "auto": multiples of the median distance.
_MULTIPLES = (0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 1.6, 2.5, 4.0)
# A centre whose features average less than this on the source reaches no source row; its coefficient would be
# unbounded, so it is left out.
_UNREACHED = 1e-150


@dataclass(frozen=True)
class _Fit:
    """beta = theta / p on the centres that reach the source, in logarithms: either factor may be beyond range."""

    log_beta: np.ndarray  # (b,), -inf where beta = 0
    gap: float
    n_iter: int

    def log_g(self, D: np.ndarray, bandwidth: float) -> np.ndarray:
        """log g from squared distances (n, b); finite wherever exp would have rounded g to zero."""
        used = self.log_beta > -np.inf
        E = D[:, used] * (-0.5 / bandwidth / bandwidth) + self.log_beta[used]
        top = E.max(axis=1)
        return top + np.log(np.exp(E - top[:, None]).sum(axis=1))


def fit_kliep(D_target: np.ndarray, p: np.ndarray, bandwidth: float, tol: float, max_iter: int) -> _Fit | None:
    """argmax of mean_target log g, g = beta'psi, beta >= 0, beta'p = 1.

    With theta = p beta (entrywise) this is the likelihood of mixture proportions theta with the columns psi_j / p_j;
    rows are scaled by their largest entry, which moves the likelihood by a constant and keeps every number in range.

    Parameters
    ----------
    D_target : (n_target, b) squared distances of target rows to the centres
    p : (b,) mean of psi over the source

    Returns
    -------
    None where no centre reaches the source
    """
    reached = p > _UNREACHED
    if not reached.any():
        return None
    log_p = np.log(p[reached])
    A = D_target[:, reached].astype(np.float64, copy=False) * (-0.5 / bandwidth / bandwidth) - log_p
    A -= A.max(axis=1, keepdims=True)
    np.exp(A, out=A)
    b = A.shape[1]
    theta, gap, n_iter = maximise_mean_log(A, np.full(b, 1.0 / b), tol=tol, max_iter=max_iter)
    log_beta = np.full(len(p), -np.inf)
    with np.errstate(divide="ignore"):
        log_beta[reached] = np.log(theta) - log_p
    return _Fit(log_beta, gap, n_iter)


class KLIEP(RatioEstimator):
    """Kullback-Leibler importance estimation procedure (Sugiyama et al. 2008).

    g(x) = beta'psi(x), psi_j Gaussian, with

        beta = argmax mean_target log beta'psi   subject to   beta >= 0,   mean_source beta'psi = 1,

    which minimises the Kullback-Leibler divergence of the target from g p_source. The programme is convex and is
    solved by a constrained Newton method (`maximise_mean_log`) until the certificate

        max L - L(beta) <= gap_ = log max_j mean_target (psi_j / p_j) / g,    p = mean_source psi,

    is at most `tol`. Centres that reach no source row (p_j below 1e-150) are left out.

    Parameters
    ----------
    bandwidth : number, sequence (searched), "median" (of the distances of all rows to the centres) or "auto" (nine
        multiples of the median, 0.1 to 4, searched). Searched means: the largest `score` on held-out rows of paired
        folds. Its source term is what plain likelihood cross-validation lacks, and without it the toy's error is
        almost twice as large
    n_centers : centres at most
    centers : "target", "source" or "both": the rows that centres are drawn from
    cv : integer, splitter or source index pairs, for the search
    standardize : z-score the inputs on the pooled rows first; bandwidths are then in those units
    tol, max_iter : largest gap, most Newton steps; a `ConvergenceWarning` tells of a larger gap
    random_state : draws centres and folds

    Attributes
    ----------
    coef_ : (b,) beta
    gap_ : upper bound of what is missing to the maximal mean log-likelihood
    n_iter_ : Newton steps
    centers_ : (b, d), in the units of X
    bandwidth_ : the one in use
    cv_results_ : `param_bandwidth`, `mean_test_score` (NaN where nothing was searched)
    weights_, ess_, max_weight_share_, adapted_ : as for every ratio estimator
    divergence_ : Kullback-Leibler divergence mean_target log g + 1 - mean_source g on the training rows; `score` is
        the same on other rows, where it is a lower bound in expectation

    Target rows are held as a matrix (n_target, n_centers); source rows are only summed.

    Examples
    --------
    >>> import numpy as np
    >>> from covshift.ratio import KLIEP
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(1, 0.5, (150, 1)), rng.normal(1.5, 0.4, (150, 1))
    >>> ratio = KLIEP(random_state=0).fit(X, X_target=X_target)
    >>> bool(abs(ratio.weights_.mean() - 1) < 1e-9 and ratio.gap_ <= 1e-6)
    True
    """

    def __init__(
        self,
        bandwidth: Any = "auto",
        *,
        n_centers: int = 100,
        centers: str = "target",
        cv: Any = 5,
        standardize: bool = True,
        tol: float = 1e-6,
        max_iter: int = 500,
        random_state: Any = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.n_centers = n_centers
        self.centers = centers
        self.cv = cv
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_grid("bandwidth", self.bandwidth, words=("median", "auto"))
        check_count("n_centers", self.n_centers)
        check_choice("centers", self.centers, ("target", "source", "both"))
        check_number("tol", self.tol, 0, 1, open_low=True)
        check_count("max_iter", self.max_iter)

    def _fit_ratio(self, sample: RatioSample) -> tuple[np.ndarray, float]:
        rng = as_generator(self.random_state)
        made = make_basis(sample, "gaussian", self.n_centers, self.centers, bool(self.standardize), rng)
        self._basis, self.centers_ = made.basis, made.centers
        D_target = self._basis.prepare(sample.X_target)
        bandwidths = self._bandwidths(made.median)
        self.bandwidth_ = bandwidths[0]
        scores = np.full(len(bandwidths), np.nan)
        if len(bandwidths) > 1:
            folds = sample.folds(self.cv, int(rng.integers(2**31 - 1)))
            scores = self._scores(sample, D_target, bandwidths, folds)
            self.bandwidth_ = bandwidths[int(np.argmax(scores))]
        self.cv_results_ = {"param_bandwidth": np.array(bandwidths), "mean_test_score": scores}

        p = moments(self._basis, sample.X, np.array([self.bandwidth_]), sample.s, second=False).mean[0]
        fit = fit_kliep(D_target, p, self.bandwidth_, self.tol, self.max_iter)
        if fit is None:
            raise ValueError(
                f"bandwidth={self.bandwidth_:.3g}: no centre is within reach of any source row, so the ratio cannot "
                "average one there. Use a larger bandwidth or centers='both', or check that the samples overlap"
            )
        self._fit, self.gap_, self.n_iter_ = fit, fit.gap, fit.n_iter
        self.coef_ = np.exp(fit.log_beta)
        return self._predict_ratio(sample.X), self._score_ratio(sample.X, sample.X_target, sample.s)

    def _bandwidths(self, median: float) -> tuple[float, ...]:
        grid = check_grid("bandwidth", self.bandwidth, words=("median", "auto"))
        if isinstance(grid, str):
            return tuple(m * median for m in _MULTIPLES) if grid == "auto" else (median,)
        return grid

    def _scores(
        self, sample: RatioSample, D_target: np.ndarray, bandwidths: tuple[float, ...], folds: list[Fold]
    ) -> np.ndarray:
        """Mean held-out score of each bandwidth, (n_bandwidths,); -inf where a fold has no fit."""
        scores, widths = np.zeros(len(bandwidths)), np.array(bandwidths)
        for fold in folds:
            p = moments(self._basis, sample.X, widths, sample.s, subset=fold.train, second=False).mean
            X, s = sample.X[fold.test], None if sample.s is None else sample.s[fold.test]
            train, test = D_target[fold.target_train], D_target[fold.target_test]
            for k, bandwidth in enumerate(bandwidths):
                fit = fit_kliep(train, p[k], bandwidth, self.tol, self.max_iter)
                if fit is None:
                    scores[k] = -np.inf
                else:
                    scores[k] += _score(self._basis, fit, bandwidth, X, test, s) / len(folds)
        return scores

    def _predict_ratio(self, X: np.ndarray) -> np.ndarray:
        def g(X: np.ndarray) -> np.ndarray:
            return np.exp(self._fit.log_g(self._basis.prepare(X), self.bandwidth_))

        return map_blocks(g, X, 4 * len(self.coef_) + 2 * X.shape[1]).astype(X.dtype, copy=False)

    def _score_ratio(self, X: np.ndarray, X_target: np.ndarray, s: np.ndarray | None) -> float:
        return _score(self._basis, self._fit, self.bandwidth_, X, self._basis.prepare(X_target), s)


def _score(
    basis: Basis, fit: _Fit, bandwidth: float, X: np.ndarray, D_target: np.ndarray, s: np.ndarray | None
) -> float:
    """1 + mean_target log g - mean_source g: at most the divergence, equal to it for the true ratio; 0 for g = 1."""
    width = 4 * basis.n_features

    def source(X: np.ndarray, s: np.ndarray | None) -> np.ndarray:
        g = np.exp(fit.log_g(basis.prepare(X), bandwidth))
        return np.array([g.sum(), len(g)] if s is None else [s @ g, s.sum()])

    total, n = sum_over_blocks(source, X, s, floats_per_row=width + 2 * X.shape[1])
    log_g = sum_over_blocks(lambda D: fit.log_g(D, bandwidth).sum(), D_target, floats_per_row=width)
    return float(1.0 + log_g / len(D_target) - total / n)
