"""Bases: features, centres and bandwidths against what they are by definition; a second basis is one page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from covshift import OneStepClassifier, OneStepRegressor
from covshift.basis import (
    BASES,
    Basis,
    GaussianBasis,
    LinearBasis,
    draw_centers,
    median_bandwidth,
    squared_distances,
    weighted_median,
)
from covshift.basis import _bandwidth as bandwidth_module
from covshift.blocks import map_blocks


@pytest.mark.parametrize("name", BASES)
def test_every_basis_keeps_its_contract(name):
    rng = np.random.default_rng(0)
    X, C = rng.normal(size=(200, 3)), rng.normal(size=(7, 3))
    basis = BASES[name].from_centers(C)
    Phi = basis.transform(X, 0.8)
    assert Phi.shape == (200, basis.n_features)
    assert np.isfinite(Phi).all()
    np.testing.assert_array_equal(Phi, basis.features(basis.prepare(X), 0.8))
    blocks = np.vstack([basis.transform(X[start : start + 64], 0.8) for start in range(0, 200, 64)])
    np.testing.assert_allclose(blocks, Phi, atol=1e-14)
    np.testing.assert_allclose(map_blocks(lambda rows: basis.transform(rows, 0.8), X, 10**5), Phi, atol=1e-14)
    prepared = basis.prepare(X)
    kept = prepared.copy()
    basis.features(prepared, 2.0)
    np.testing.assert_array_equal(prepared, kept)
    assert basis.transform(X.astype(np.float32), 0.8).dtype in (np.float32, np.float64)


def test_gaussian_is_its_formula():
    rng = np.random.default_rng(0)
    X, C = rng.normal(size=(20, 4)), rng.normal(size=(6, 4))
    expected = np.exp(-(cdist(X, C) ** 2) / (2 * 0.7**2))
    np.testing.assert_allclose(GaussianBasis(C).transform(X, 0.7), expected, rtol=1e-12)
    assert np.abs(GaussianBasis(C).transform(X, 1e150) - 1).max() < 1e-12
    np.testing.assert_array_equal(GaussianBasis(C).transform(C, 1e-150), np.eye(6))


def test_linear_is_the_rows():
    X = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_array_equal(LinearBasis.from_centers(np.zeros((9, 3))).transform(X, 1.0), X)


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_distances_far_from_the_origin_keep_their_digits(offset):
    rng = np.random.default_rng(0)
    X, C = rng.normal(size=(30, 2)) + offset, rng.normal(size=(5, 2)) + offset
    np.testing.assert_allclose(squared_distances(X, C), cdist(X, C) ** 2, rtol=1e-6, atol=1e-12)
    assert (squared_distances(C, C) >= 0).all()


@pytest.mark.parametrize("where", ["target", "source", "both"])
def test_centres_are_distinct_rows_of_the_right_sample(where):
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(size=(40, 2)), rng.normal(size=(60, 2))
    C = draw_centers(X, X_target, 21, where, np.random.default_rng(1))
    assert len(C) == len(np.unique(C, axis=0)) == 21
    from_source = sum((row == X).all(axis=1).any() for row in C)
    from_target = sum((row == X_target).all(axis=1).any() for row in C)
    assert (from_source, from_target) == {"target": (0, 21), "source": (21, 0), "both": (10, 11)}[where]


def test_centres_do_not_depend_on_order_or_repetition():
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(size=(40, 2)), rng.normal(size=(60, 2))
    C = draw_centers(X, X_target, 20, "both", np.random.default_rng(1))
    again = draw_centers(
        np.repeat(X, 3, axis=0)[rng.permutation(120)], X_target[::-1], 20, "both", np.random.default_rng(1)
    )
    np.testing.assert_array_equal(C, again)
    assert not np.array_equal(C, draw_centers(X, X_target, 20, "both", np.random.default_rng(2)))


@pytest.mark.parametrize(
    ("n_source", "n_target", "n_shared"), [(5, 60, 0), (60, 5, 0), (40, 40, 40), (30, 25, 20), (4, 3, 2)]
)
def test_a_side_with_too_few_rows_is_made_up_for_by_the_other(n_source, n_target, n_shared):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_source, 2))
    X_target = np.vstack([X[:n_shared], rng.normal(size=(n_target - n_shared, 2))])
    C = draw_centers(X, X_target, 20, "both", np.random.default_rng(0))
    distinct = n_source + n_target - n_shared
    assert len(C) == len(np.unique(C, axis=0)) == min(20, distinct)


def test_rows_that_share_their_first_column_are_told_apart():
    X = np.array([[0.0, j] for j in range(10)])
    C = draw_centers(X, X.copy(), 10, "both", np.random.default_rng(0))
    np.testing.assert_array_equal(C, X)


def test_without_a_target_centres_come_from_the_source():
    X = np.arange(10.0)[:, None]
    np.testing.assert_array_equal(draw_centers(X, None, 99, "target", np.random.default_rng(0)), X)


def test_median_bandwidth_is_the_pooled_median_distance():
    rng = np.random.default_rng(0)
    X, X_target, C = rng.normal(size=(31, 3)), rng.normal(size=(20, 3)), rng.normal(size=(6, 3))
    pooled = np.vstack([X, X_target])
    assert median_bandwidth(X, X_target, C) == pytest.approx(np.median(cdist(pooled, C)))
    assert median_bandwidth(X, None, C) == pytest.approx(np.median(cdist(X, C)))
    s = rng.integers(0, 4, 31).astype(float)
    repeated = np.repeat(X, s.astype(int), axis=0)
    assert median_bandwidth(X, X_target, C, s) == pytest.approx(median_bandwidth(repeated, X_target, C))


def test_median_bandwidth_is_positive():
    ones = np.ones((9, 2))
    assert median_bandwidth(ones, ones, ones[:1]) == 1.0
    mostly = np.vstack([ones, [[4.0, 5.0]]])
    assert median_bandwidth(mostly, None, ones[:1]) == pytest.approx(5.0)  # most distances are zero
    s = np.ones(10)
    assert median_bandwidth(mostly, None, ones[:1], s) == pytest.approx(5.0)


def test_thinned_median_is_close(monkeypatch):
    rng = np.random.default_rng(0)
    X, C = rng.normal(size=(5000, 2)), rng.normal(size=(10, 2))
    exact = median_bandwidth(X, None, C)
    monkeypatch.setattr(bandwidth_module, "_MAX_DISTANCES", 5000)
    assert median_bandwidth(X, None, C) == pytest.approx(exact, rel=0.05)
    assert median_bandwidth(X, None, C, np.ones(5000)) == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_weighted_median_is_that_of_repeated_values(seed):
    rng = np.random.default_rng(seed)
    values, s = rng.integers(0, 8, 9) / 2.0, rng.integers(0, 4, 9)
    s[0] += 1
    assert weighted_median(values, s) == np.median(np.repeat(values, s))
    assert weighted_median(values) == np.median(values)


@dataclass(frozen=True)
class CauchyBasis(Basis):
    """phi_j(x) = 1 / (1 + ||x - c_j||^2 / sigma^2): all that a second basis takes."""

    centers: np.ndarray
    has_bandwidth: ClassVar[bool] = True

    @classmethod
    def from_centers(cls, centers: np.ndarray) -> CauchyBasis:
        return cls(centers)

    @property
    def n_features(self) -> int:
        return len(self.centers)

    def prepare(self, X: np.ndarray) -> np.ndarray:
        return squared_distances(X, self.centers)

    def features(self, prepared: np.ndarray, bandwidth: float) -> np.ndarray:
        return 1.0 / (1.0 + prepared / bandwidth**2)


@pytest.fixture
def cauchy(monkeypatch):
    monkeypatch.setitem(BASES, "cauchy", CauchyBasis)  # the one line of registration


def shifted():
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(0, 1, (150, 2)), rng.normal(0.5, 0.9, (150, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(150), X_target


def test_a_registered_basis_fits_by_its_name(cauchy):
    X, y, X_target = shifted()
    model = OneStepRegressor(basis="cauchy", random_state=0).fit(X, y, X_target=X_target)
    assert np.mean((model.predict(X_target) - np.sin(X_target[:, 0])) ** 2) < 0.02
    assert not np.allclose(model.predict(X), OneStepRegressor(random_state=0).fit(X, y, X_target=X_target).predict(X))
    assert OneStepClassifier(basis="cauchy", random_state=0).fit(X, y > 0, X_target=X_target).score(X, y > 0) > 0.9


def test_an_unregistered_basis_is_refused():
    X, y, X_target = shifted()
    with pytest.raises(ValueError, match="basis='cauchy': expected one of 'gaussian', 'linear'"):
        OneStepRegressor(basis="cauchy").fit(X, y, X_target=X_target)


def test_linear_basis_fits_a_line():
    X, _, X_target = shifted()
    y = X @ [1.0, -2.0] + 3.0
    model = OneStepRegressor(basis="linear", reg_f=1e-8, random_state=0).fit(X, y, X_target=X_target)
    np.testing.assert_allclose(model.predict(X_target), X_target @ [1.0, -2.0] + 3.0, atol=1e-5)
    assert model.coef_.shape == (2,)
