"""The paper's toy: errors of the literal setting and of the defaults, over seeds that nothing was tuned on."""

from __future__ import annotations

import numpy as np
import pytest

from covshift import OneStepRegressor
from covshift.datasets import make_toy_regression

pytestmark = pytest.mark.filterwarnings("ignore::covshift.OverlapWarning")

NOISE_FLOOR = 0.01


def errors(make, seeds):
    """Mean squared error at 10,000 labelled target rows, one a seed."""
    out = []
    for seed in seeds:
        toy = make_toy_regression(random_state=seed)
        model = make(seed).fit(toy.X, toy.y, X_target=toy.X_target)
        out.append(np.mean((model.predict(toy.X_eval) - toy.y_eval) ** 2))
    return np.array(out)


def literal(seed):
    return OneStepRegressor.from_paper(random_state=seed)


def default(seed):
    return OneStepRegressor(random_state=seed)


def unweighted(seed):
    return OneStepRegressor.from_paper(shrink="one", reg_g=np.inf, random_state=seed)


def standard_error(values):
    return values.std(ddof=1) / np.sqrt(len(values))


@pytest.mark.parametrize("make", [literal, default])
def test_a_few_trials_land_in_the_band(make):
    adapted, plain = errors(make, range(2000, 2006)), errors(unweighted, range(2000, 2006))
    assert NOISE_FLOOR < np.median(adapted) < 0.020
    assert (adapted < plain).sum() >= 4


@pytest.mark.slow
def test_literal_setting_reaches_the_papers_error():
    """At most 0.0160 plus two standard errors over 40 trials; unweighted in the same setting is far worse."""
    found = errors(literal, range(1000, 1040))
    assert NOISE_FLOOR < found.mean() <= 0.0160 + 2 * standard_error(found)
    assert errors(unweighted, range(1000, 1040)).mean() > 1.5 * found.mean()


@pytest.mark.slow
def test_defaults_reach_their_error():
    """At most 0.0140 plus two standard errors over 40 trials, and no trial that goes astray."""
    found = errors(default, range(1000, 1040))
    assert NOISE_FLOOR < found.mean() <= 0.0140 + 2 * standard_error(found)
    assert found.max() < 0.04
