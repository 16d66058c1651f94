"""Weight transforms: identity settings, order, scale rules, and what a factor on all weights means."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from covshift.exceptions import AllWeightsZeroError
from covshift.weighting import TRANSFORMS, clip, flatten, normalize, relative

W = np.random.default_rng(0).gamma(0.5, 2.0, size=50)
SETTINGS = {
    "flatten": {"flattening": 0.4},
    "relative": {"relative_alpha": 0.3},
    "clip": {"upper": 1.5},
    "normalize": {},
}
IDENTITY = {"flatten": {"flattening": 1.0}, "relative": {"relative_alpha": 0.0}, "clip": {}}


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_transforms_keep_order_and_sign_and_the_callers_array(name):
    before = W.copy()
    changed = TRANSFORMS[name](W, **SETTINGS[name])
    order = np.argsort(W)
    assert (np.diff(changed[order]) >= 0).all()
    assert changed.min() >= 0 and changed.shape == W.shape
    assert not np.allclose(changed, W)
    np.testing.assert_array_equal(W, before)


@pytest.mark.parametrize("name", sorted(IDENTITY))
def test_identity_settings_return_their_input(name):
    assert TRANSFORMS[name](W, **IDENTITY[name]) is W


def test_normalised_weights_stay_as_they_are():
    np.testing.assert_allclose(normalize(normalize(W)), normalize(W), rtol=1e-15)


@pytest.mark.parametrize("c", [1e-3, 7.0])
def test_scale_rules(c):
    np.testing.assert_allclose(flatten(c * W, 0.4), c**0.4 * flatten(W, 0.4))
    np.testing.assert_allclose(clip(c * W, c * 1.5, c * 0.2), c * clip(W, 1.5, 0.2))
    np.testing.assert_allclose(normalize(c * W), normalize(W))
    assert not np.allclose(relative(c * W, 0.3) / relative(W, 0.3).mean(), relative(W, 0.3) / relative(W, 0.3).mean())


def test_flattening_of_zero_gives_ones_even_for_weights_of_zero():
    np.testing.assert_array_equal(flatten(np.array([0.0, 0.5, 2.0]), 0.0), np.ones(3))


def test_relative_importance_is_that_of_the_mixture_and_bounded():
    p, q = np.array([0.5, 0.2, 1e-9]), np.array([0.1, 0.4, 1.0])
    np.testing.assert_allclose(relative(q / p, 0.25), q / (0.75 * p + 0.25 * q))
    assert relative(np.array([1e300, np.finfo(float).max]), 0.25).max() <= 4.0
    np.testing.assert_array_equal(relative(np.array([0.0, 3.0]), 1.0), [0.0, 1.0])


def test_normalising_counts_frequencies():
    w, s = np.array([1.0, 3.0, 9.0]), np.array([2, 1, 0])
    np.testing.assert_allclose(normalize(w, s)[:2], normalize(np.array([1.0, 1.0, 3.0]))[[0, 2]])


@pytest.mark.parametrize("c", [0.01, 30.0])
def test_a_factor_on_all_weights_is_one_over_it_on_the_penalty(c):
    rng = np.random.default_rng(1)
    X, w = rng.normal(size=(80, 3)), rng.gamma(1.0, size=80)
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=80)
    scaled, plain = Ridge(3.0).fit(X, y, c * w), Ridge(3.0 / c).fit(X, y, w)
    np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=1e-9)
    assert not np.allclose(scaled.coef_, Ridge(3.0).fit(X, y, w).coef_)
    scaled = LogisticRegression(C=0.2, tol=1e-10).fit(X, y > 0, c * w)
    plain = LogisticRegression(C=0.2 * c, tol=1e-10).fit(X, y > 0, w)
    np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: flatten(W, 1.5), r"flattening=1.5: expected a number in \[0, 1\]"),
        (lambda: flatten(W, "half"), "flattening='half': expected a number"),
        (lambda: relative(W, -0.1), r"relative_alpha=-0.1: expected a number in \[0, 1\]"),
        (lambda: clip(W, 1.0, 2.0), r"upper=1.0: expected a number in \(2,"),
        (lambda: clip(W, lower=-1.0), "lower=-1.0: expected a number"),
    ],
)
def test_settings_that_make_no_sense_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_weights_of_zero_have_no_mean_to_be_normalised_by():
    with pytest.raises(AllWeightsZeroError, match="no mean to be normalised by"):
        normalize(np.zeros(3))
