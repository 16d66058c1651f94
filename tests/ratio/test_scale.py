"""Plain ratios are on the scale of a ratio: they average near one on the source."""

import numpy as np
import pytest

from covshift.datasets import make_toy_regression
from covshift.ratio import RATIOS, ULSIF, RuLSIF


@pytest.mark.filterwarnings("ignore::covshift.exceptions.OverlapWarning")
@pytest.mark.parametrize("shift", [0.5, 1.0])
@pytest.mark.parametrize("name", ["classifier", "kliep", "kmm"])
def test_weights_average_half_to_two_on_the_toys_pair_and_beyond(name, shift):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, X_target = rng.normal(1, 0.5, (150, 1)), rng.normal(1 + shift, 0.25, (150, 1))
        ratio = RATIOS[name](random_state=seed).fit(X, X_target=X_target)
        assert 0.5 <= ratio.weights_.mean() <= 2.0
        assert 0.2 <= ratio.predict(X).mean() <= 5.0


@pytest.mark.filterwarnings("ignore::covshift.exceptions.OverlapWarning")
@pytest.mark.parametrize("seed", [15, 41, 88, 99])
def test_ulsifs_search_passes_over_candidates_whose_clipped_fit_is_off_the_scale(seed):
    toy = make_toy_regression(random_state=seed)
    ratio = ULSIF(random_state=seed).fit(toy.X, X_target=toy.X_target)
    assert 0.5 <= ratio.weights_.mean() <= 2.0
    best = np.argmax(ratio.cv_results_["mean_test_score"])
    bandwidth, reg = ratio.cv_results_["param_bandwidth"][best], ratio.cv_results_["param_reg"][best]
    assert ULSIF(bandwidth, reg, random_state=seed).fit(toy.X, X_target=toy.X_target).weights_.mean() > 2.0


@pytest.mark.filterwarnings("ignore::covshift.exceptions.OverlapWarning")
def test_a_relative_ratio_has_no_scale_to_keep_and_takes_its_best_candidate():
    toy = make_toy_regression(random_state=41)
    ratio = RuLSIF(0.5, random_state=41).fit(toy.X, X_target=toy.X_target)
    best = np.argmax(ratio.cv_results_["mean_test_score"])
    assert ratio.bandwidth_ == ratio.cv_results_["param_bandwidth"][best]
    assert ratio.reg_ == ratio.cv_results_["param_reg"][best]
