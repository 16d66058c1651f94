"""The toy has the paper's densities, regression function and noise."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.stats import kstest, norm

from covshift.datasets import make_toy_regression


def test_ratio_is_that_of_the_densities():
    x = np.linspace(-1, 4, 101)
    expected = norm.pdf(x, 2, 0.25) / norm.pdf(x, 1, 0.5)
    toy = make_toy_regression(random_state=0)
    np.testing.assert_allclose(toy.true_ratio(x[:, None]), expected, rtol=1e-10)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(toy)).true_ratio(x), expected, rtol=1e-10)


def test_inputs_follow_their_laws():
    toy = make_toy_regression(20_000, 20_000, 20_000, random_state=1)
    assert kstest(toy.X[:, 0], norm(1, 0.5).cdf).pvalue > 1e-3
    assert kstest(toy.X_target[:, 0], norm(2, 0.25).cdf).pvalue > 1e-3
    assert kstest(toy.X_eval[:, 0], norm(2, 0.25).cdf).pvalue > 1e-3


def test_conditional_law_is_the_same_on_both_sides():
    toy = make_toy_regression(20_000, 1, 20_000, noise=0.1, random_state=2)
    for X, y in ((toy.X, toy.y), (toy.X_eval, toy.y_eval)):
        x = X[:, 0]
        assert kstest((y - np.sin(np.pi * x) / (np.pi * x)) / 0.1, norm.cdf).pvalue > 1e-3


def test_weighted_source_means_are_target_means():
    toy = make_toy_regression(200_000, 200_000, 0, random_state=3)
    r = toy.true_ratio(toy.X)
    assert abs(r.mean() - 1) < 0.03
    assert abs(np.mean(r * toy.X[:, 0]) - 2) < 0.06


def test_same_seed_same_bits_other_seed_other_bits():
    first, again, other = (make_toy_regression(random_state=seed) for seed in (4, 4, 5))
    for name in ("X", "y", "X_target", "X_eval", "y_eval"):
        assert first[name].tobytes() == again[name].tobytes()
        assert first[name].tobytes() != other[name].tobytes()


def test_noise_free_values_are_the_sinc():
    toy = make_toy_regression(5, 5, 5, noise=0, random_state=0)
    np.testing.assert_allclose(toy.y, np.sin(np.pi * toy.X[:, 0]) / (np.pi * toy.X[:, 0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"n_source": 0}, "n_source=0"), ({"n_target": -1}, "n_target=-1"), ({"noise": -0.1}, "noise=-0.1")],
)
def test_impossible_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_toy_regression(**arguments)
