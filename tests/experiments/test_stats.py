"""Paired tests against SciPy and against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from covshift.experiments.stats import best_and_ties, holm, paired_p, record


@pytest.mark.parametrize("seed", range(5))
def test_paired_p_is_scipys(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=12), rng.normal(0.3, size=12)
    assert paired_p(a, b) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-10)


def test_equal_or_single_samples_are_no_evidence():
    a = np.array([1.0, 2.0, 3.0])
    assert paired_p(a, a) == 1.0
    assert paired_p(a[:1], a[1:2]) == 1.0


def test_constant_difference_is_certain():
    a = np.array([0.0, 0.0, 0.0])
    assert paired_p(a, a + 1.0) == 0.0


def test_pairs_with_a_failed_fit_are_left_out():
    a, b = np.array([1.0, 2.0, 4.0, np.nan]), np.array([1.5, 2.1, 4.4, 9.0])
    assert paired_p(a, b) == pytest.approx(stats.ttest_rel(a[:3], b[:3]).pvalue, rel=1e-10)


def test_holm_by_hand():
    # Sorted: .01 x 4, .02 x 3, .03 x 2, .5 x 1; then running maxima.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])


def test_best_and_ties_keeps_what_is_not_significantly_worse():
    rng = np.random.default_rng(0)
    base = rng.normal(size=50)
    values = {"best": base, "tied": base + rng.normal(0.0, 1.0, 50) * 0.1 + 0.001, "worse": base + 0.5}
    values["worse"] = values["worse"] + rng.normal(size=50) * 0.1
    assert best_and_ties(values) == {"best", "tied"}


def test_a_method_that_never_fits_is_never_best():
    assert best_and_ties({"broken": np.full(4, np.nan), "fine": np.arange(4.0)}) == {"fine"}


def test_record_counts_after_holm_and_keeps_ratios_of_means():
    rng = np.random.default_rng(1)
    reference = {name: 1.0 + 0.01 * rng.normal(size=20) for name in "abc"}
    method = {
        "a": reference["a"] - 0.5 + 0.01 * rng.normal(size=20),
        "b": reference["b"] + 0.5 + 0.01 * rng.normal(size=20),
        "c": reference["c"][::-1].copy(),
    }
    found = record(method, reference)
    assert (found.wins, found.losses, found.ties) == (1, 1, 1)
    assert found.ratios["a"] == pytest.approx(method["a"].mean() / reference["a"].mean())
    assert found.worst[0] == "b"
    assert found.geometric_mean == pytest.approx(np.prod(list(found.ratios.values())) ** (1 / 3))


def test_one_significant_problem_among_many_may_drown_in_holm():
    rng = np.random.default_rng(3)
    d = rng.normal(size=20)
    d = (d - d.mean()) / d.std(ddof=1)
    shift = 2.3 / np.sqrt(20)  # t = 2.3 with 19 degrees of freedom: p = 0.033
    reference = {f"p{k}": np.zeros(20) + 1.0 for k in range(5)}
    method = {f"p{k}": 1.0 + d + (shift if k == 0 else 0.0) for k in range(5)}
    assert record({"p0": method["p0"]}, reference).losses == 1
    assert record(method, reference).losses == 0
