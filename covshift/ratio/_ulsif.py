"""uLSIF and RuLSIF: least-squares fits of the (relative) density ratio in closed form."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from covshift._checks import as_generator, check_choice, check_count, check_grid, check_number
from covshift.basis import BASES
from covshift.blocks import map_blocks, sum_over_blocks
from covshift.ratio._base import RatioEstimator, RatioSample
from covshift.ratio._features import make_basis
from covshift.ratio._least_squares import clipped_betas, moments, relative_second_moment
from covshift.ratio._search import LeastSquaresSearch, search_least_squares

__all__ = ["ULSIF", "RuLSIF"]

# "auto": multiples of the median distance, and ridges. From 0.1 instead of 0.25 the search follows noise on two
# Gaussians in one dimension (normalised error .29 against .26, 100 seeds) and gains only where both samples are made
# of narrow clusters (.20 against .71), whose median distance is that between clusters.
_MULTIPLES = tuple(float(multiple) for multiple in np.geomspace(0.25, 4, 9))
_LOW_MEAN, _HIGH_MEAN = 0.5, 2.0
_REGS = tuple(float(reg) for reg in np.logspace(-3, 1, 9))


class _LeastSquaresRatio(RatioEstimator):
    """What uLSIF and RuLSIF share: everything but the relative alpha."""

    bandwidth: Any
    reg: Any
    n_centers: int
    centers: str
    basis: str
    cv: Any
    loo: str
    standardize: bool
    n_jobs: int | None
    random_state: Any

    @abstractmethod
    def _relative_alpha(self) -> float:
        """a in (1 - a) p_source + a p_target, the denominator."""

    def _check_parameters(self) -> None:
        check_grid("bandwidth", self.bandwidth, words=("median", "auto"))
        check_grid("reg", self.reg, words=("auto",))
        check_count("n_centers", self.n_centers)
        check_choice("centers", self.centers, ("target", "source", "both"))
        check_choice("basis", self.basis, BASES)
        check_choice("loo", self.loo, ("single", "pairs"))
        check_number("relative_alpha", self._relative_alpha(), 0, 1)

    def _fit_ratio(self, sample: RatioSample) -> tuple[np.ndarray, float]:
        rng = as_generator(self.random_state)
        made = make_basis(sample, self.basis, self.n_centers, self.centers, bool(self.standardize), rng)
        self._basis, self.centers_ = made.basis, made.centers
        found = self._search(sample, made.median, int(rng.integers(2**31 - 1)))
        self.bandwidth_, self.reg_, self.coef_ = self._first_on_scale(sample, found)
        divergence = self._score_ratio(sample.X, sample.X_target, sample.s)
        return self._predict_ratio(sample.X), divergence

    def _first_on_scale(self, sample: RatioSample, found: LeastSquaresSearch) -> tuple[float, float, np.ndarray]:
        """(bandwidth, reg, beta) of the best candidate whose g averages 1/2 to 2 on the source, else of the best.

        A true ratio averages one there. Least squares does not know it, and clipping a beta of large entries of both
        signs can raise the average to five. Relative ratios have no such scale.
        """
        a, sums = self._relative_alpha(), {}
        first = None
        for bandwidth, reg in found.ranking():
            if bandwidth not in sums:
                width = np.array([bandwidth])
                source = moments(self._basis, sample.X, width, sample.s)
                target = moments(self._basis, sample.X_target, width, second=a > 0)
                sums[bandwidth] = relative_second_moment(source, target, a)[0], source.mean[0], target.mean[0]
            H, p, h = sums[bandwidth]
            fit = bandwidth, reg, clipped_betas(H, h, np.array([reg]))[:, 0]
            if a > 0 or _LOW_MEAN <= p @ fit[2] <= _HIGH_MEAN:
                return fit
            first = first or fit
        assert first is not None
        return first

    def _search(self, sample: RatioSample, median: float, seed: int) -> LeastSquaresSearch:
        bandwidths = check_grid("bandwidth", self.bandwidth, words=("median", "auto"))
        if isinstance(bandwidths, str) or not BASES[self.basis].has_bandwidth:
            auto = bandwidths == "auto" and BASES[self.basis].has_bandwidth
            bandwidths = tuple(m * median for m in _MULTIPLES) if auto else (median,)
        regs = check_grid("reg", self.reg, words=("auto",))
        regs = _REGS if isinstance(regs, str) else regs
        if len(bandwidths) * len(regs) == 1:
            found = LeastSquaresSearch(np.full((1, 1), np.nan), bandwidths, regs)
        else:
            folds = self.loo if self.cv is None else sample.folds(self.cv, seed)
            found = search_least_squares(
                sample.X,
                sample.X_target,
                sample.s,
                self._basis,
                bandwidths,
                regs,
                folds,
                self._relative_alpha(),
                self.n_jobs,
            )
        self.cv_results_ = {
            "param_bandwidth": np.repeat(bandwidths, len(regs)),
            "param_reg": np.tile(regs, len(bandwidths)),
            "mean_test_score": -found.scores.ravel() - 0.5,
        }
        return found

    def _predict_ratio(self, X: np.ndarray) -> np.ndarray:
        return map_blocks(lambda rows: self._g(rows).astype(rows.dtype, copy=False), X, self._floats_per_row())

    def _floats_per_row(self) -> int:
        return 4 * len(self.coef_) + 2 * len(self.centers_[0])

    def _g(self, X: np.ndarray) -> np.ndarray:
        return np.maximum(self._basis.transform(X, self.bandwidth_) @ self.coef_, 0.0)

    def _score_ratio(self, X: np.ndarray, X_target: np.ndarray, s: np.ndarray | None) -> float:
        a = self._relative_alpha()

        def sums(X: np.ndarray, s: np.ndarray | None) -> np.ndarray:
            g = self._g(X)
            return np.array([len(g), g.sum(), g @ g]) if s is None else np.array([s.sum(), s @ g, s @ (g * g)])

        n_s, _, g2_s = sum_over_blocks(sums, X, s, floats_per_row=self._floats_per_row())
        n_t, g_t, g2_t = sum_over_blocks(sums, X_target, None, floats_per_row=self._floats_per_row())
        return float(g_t / n_t - (1 - a) / 2 * g2_s / n_s - a / 2 * g2_t / n_t - 0.5)

    def _all_zero_message(self, n: int) -> str:
        return (
            f"{type(self).__name__}: with bandwidth={self.bandwidth_:.3g} and reg={self.reg_:.3g} the ratio is zero "
            f"at all {n} source rows, so they carry no weight. Use a larger bandwidth, centers='both', or check that "
            "the two samples overlap at all"
        )


class ULSIF(_LeastSquaresRatio):
    """Unconstrained least-squares importance fitting (Kanamori, Hido, Sugiyama 2009).

    g(x) = beta'psi(x) with

        beta = max((H + reg I)^-1 h, 0),   H = mean_source psi psi',   h = mean_target psi,

    the ridge-penalised minimiser of 1/2 mean_source (g - r)^2 up to a constant, r = p_target / p_source, clipped at
    zero. A poor bandwidth makes a poor ratio: in one dimension the median distance alone is three times worse than
    the searched one. Where source rows are missing altogether the ratio is whatever the basis gives: see
    `OverlapWarning`.

    Parameters
    ----------
    bandwidth : number, sequence (searched), "median" (of the distances of all rows to the centres) or "auto" (nine
        multiples of the median, 1/4 to 4, searched); samples of several narrow clusters need smaller ones
    reg : number, sequence (searched) or "auto" (1e-3 to 10, nine values, searched); > 0
    n_centers : centres at most
    centers : "target", "source" or "both": the rows that centres are drawn from
    basis : name in `covshift.basis.BASES`
    cv : None for exact leave-one-out of the kind `loo`, or an integer, a splitter or source index pairs for paired
        k-fold scores
    loo : "single" (every row on its own, all rows used, order-free) or "pairs" (row i of both samples at once)
    standardize : z-score the inputs on the pooled rows first; bandwidths are then in those units. In ten inputs, one
        of them shifted by its sd, this costs little where all have one unit (normalised error .93 against .88) and
        saves the fit where five others have three times the unit of the shifted one (.93 against 1.00)
    n_jobs : threads over bandwidths
    random_state : draws centres and folds

    Attributes
    ----------
    coef_ : (b,) beta
    centers_ : (b, d), in the units of X
    bandwidth_, reg_ : the pair in use: the best by score whose g averages 1/2 to 2 on the source, as a ratio should;
        the best by score where none does
    cv_results_ : `param_bandwidth`, `param_reg`, `mean_test_score` (the held-out `score`; NaN where nothing was
        searched)
    weights_, ess_, max_weight_share_, adapted_ : as for every ratio estimator
    divergence_ : Pearson divergence 1/2 mean_source (g - 1)^2, in its estimable form
        mean_target g - 1/2 mean_source g^2 - 1/2, on the training rows; `score` is the same on other rows

    Examples
    --------
    >>> import numpy as np
    >>> from covshift.ratio import ULSIF
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(1, 0.5, (150, 1)), rng.normal(1.5, 0.4, (150, 1))
    >>> ratio = ULSIF(random_state=0).fit(X, X_target=X_target)
    >>> low, high = ratio.predict([[0.5], [2.0]])
    >>> bool(low < 0.5 < 1.5 < high)
    True
    """

    def __init__(
        self,
        bandwidth: Any = "auto",
        reg: Any = "auto",
        *,
        n_centers: int = 100,
        centers: str = "target",
        basis: str = "gaussian",
        cv: Any = None,
        loo: str = "single",
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.reg = reg
        self.n_centers = n_centers
        self.centers = centers
        self.basis = basis
        self.cv = cv
        self.loo = loo
        self.standardize = standardize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _relative_alpha(self) -> float:
        return 0.0


class RuLSIF(_LeastSquaresRatio):
    """Relative uLSIF (Yamada et al. 2013): the ratio to a mixture of both samples, which is bounded by 1/a.

    g(x) = beta'psi(x) estimates p_target / ((1 - a) p_source + a p_target), a = `relative_alpha`, with

        beta = max((H + reg I)^-1 h, 0),   H = (1 - a) mean_source psi psi' + a mean_target psi psi',
        h = mean_target psi.

    a = 0 is `ULSIF`; a > 0 trades a bounded, easily estimated ratio for a remaining bias of the weighted learner.
    The weights are relative: they do not average one on the source.

    Parameters
    ----------
    relative_alpha : a in [0, 1]
    bandwidth, reg, n_centers, centers, basis, cv, loo, standardize, n_jobs, random_state : as for `ULSIF`

    Attributes
    ----------
    divergence_ : relative Pearson divergence
        mean_target g - (1-a)/2 mean_source g^2 - a/2 mean_target g^2 - 1/2, on the training rows; `score` is the same
        on other rows
    coef_, centers_, bandwidth_, reg_, cv_results_, weights_, ess_, max_weight_share_, adapted_ : as for `ULSIF`

    Examples
    --------
    >>> import numpy as np
    >>> from covshift.ratio import RuLSIF
    >>> rng = np.random.default_rng(0)
    >>> X, X_target = rng.normal(1, 0.5, (150, 1)), rng.normal(1.5, 0.4, (150, 1))
    >>> ratio = RuLSIF(relative_alpha=0.5, random_state=0).fit(X, X_target=X_target)
    >>> bool(ratio.weights_.max() < 2.5)
    True
    """

    def __init__(
        self,
        relative_alpha: float = 0.5,
        bandwidth: Any = "auto",
        reg: Any = "auto",
        *,
        n_centers: int = 100,
        centers: str = "target",
        basis: str = "gaussian",
        cv: Any = None,
        loo: str = "single",
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.relative_alpha = relative_alpha
        self.bandwidth = bandwidth
        self.reg = reg
        self.n_centers = n_centers
        self.centers = centers
        self.basis = basis
        self.cv = cv
        self.loo = loo
        self.standardize = standardize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _relative_alpha(self) -> float:
        return self.relative_alpha
