"""Plain ratios are on the scale of a ratio: they average near one on the source."""

import numpy as np
import pytest

from covshift.ratio import RATIOS


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
