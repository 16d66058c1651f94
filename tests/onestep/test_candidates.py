"""The grid, the average of candidates, and the reference weights that judge them."""

from __future__ import annotations

import numpy as np
import pytest
import reference

from covshift.onestep._g_step import GRows, make_systems, take_rows
from covshift.onestep._scores import reference_weights, uniform_reference
from covshift.onestep._search import Grid, Scoring, averaging_weights


def average(S, n_eff=100.0, criterion="corrected", selection="average", sharpness=0.5):
    index, q = averaging_weights(np.asarray(S), n_eff, Scoring(criterion, 0.0, selection, sharpness))
    assert q.sum() == pytest.approx(1.0)
    return dict(zip(index.tolist(), q.tolist(), strict=True)), index.tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("criterion", "shift"), [("corrected", 1.0), ("objective", -5.0)])
def test_average_is_its_formula(seed, criterion, shift):
    S = shift + 0.1 * np.random.default_rng(seed).random(30)
    for sharpness in (0.5, 0.03):
        q, index = average(S, criterion=criterion, sharpness=sharpness)
        assert q == pytest.approx(reference.averaging(S, 100.0, criterion, sharpness))
        assert index == sorted(q, key=lambda c: S[c])


def test_candidates_below_a_thousandth_of_the_best_are_dropped():
    S = 1 + np.array([0.0, 2 * np.log(990) / 100, 2 * np.log(1010) / 100])
    assert set(average(S)[0]) == {0, 1}


def test_the_best_stands_alone_where_asked_for_or_where_its_score_is_nothing():
    assert average([3.0, 1.0, 1.0], selection="best")[0] == {1: 1.0}  # the first of equals
    assert average([1e-13, 1e-13, 1.0])[0] == {0: 1.0}
    assert set(average([1e-11, 1e-11, 1.0])[0]) == {0, 1}


def test_failed_candidates_have_no_weight():
    for criterion in ("corrected", "objective"):
        assert average([np.inf, 1.0, np.inf], criterion=criterion)[0] == {1: 1.0}


def test_grid_numbers_its_candidates_by_bandwidth_f_then_g_then_reg_g_then_reg_f():
    grid = Grid((1.0, 2.0), (3.0, 4.0, 5.0), (0.1, 0.2), (0.5, np.inf))
    assert len(grid) == 24
    table = grid.table()
    names = ("bandwidth_f", "bandwidth_g", "reg_g", "reg_f")
    found = list(zip(*(table[name].tolist() for name in names), strict=True))
    assert found == [(a, b, c, d) for a in (1, 2) for b in (3, 4, 5) for c in (0.5, np.inf) for d in (0.1, 0.2)]
    some = grid.table(np.array([23, 0]))
    assert [some[name][0] for name in names] == [2.0, 5.0, np.inf, 0.2]
    assert (np.diff(grid.columns.which) >= 0).all()


@pytest.mark.parametrize("frequencies", [False, True])
def test_reference_weights_are_their_formula(frequencies):
    rng = np.random.default_rng(0)
    n, n_target, b = 24, 18, 5
    Psi, Psi_target = [rng.random((n, b)) for _ in range(2)], [rng.random((n_target, b)) for _ in range(2)]
    s = rng.integers(1, 4, n).astype(float) if frequencies else None
    rows = GRows(Psi, Psi_target, [P.mean(axis=0) for P in Psi_target], s)
    source, target = np.array_split(rng.permutation(n), 3), np.array_split(rng.permutation(n_target), 3)
    folds, systems, held_out = [], [], []
    for test, target_test in zip(source, target, strict=True):
        train, target_train = np.setdiff1d(np.arange(n), test), np.setdiff1d(np.arange(n_target), target_test)
        folds.append((train, test, target_train, target_test))
        sides = [
            take_rows(rows, a, c, [P[c].mean(axis=0) for P in Psi_target])
            for a, c in ((train, target_train), (test, target_test))
        ]
        systems.append(make_systems(sides[0]))
        held_out.append(sides[1])
    found = reference_weights(systems, tuple(held_out), (0.01, 1.0, np.inf), 1.0)
    w, C, n_eff = reference.reference_weights(
        list(zip(Psi, Psi_target, strict=True)), folds, [0.01, 1.0], np.ones(n) if s is None else s
    )
    np.testing.assert_allclose(np.concatenate(found.weights), np.concatenate([w[test] for test in source]), rtol=1e-9)
    assert (found.C, found.n_eff) == pytest.approx((C, n_eff))
    without = np.concatenate(reference_weights(systems, tuple(held_out), (np.inf,), 1.0).weights)
    assert (without > 0).all()
    assert without.std() > 1e-3  # the unweighted learner is judged by weights too
    plain = uniform_reference(tuple(held_out))
    assert plain.n_eff == (n if s is None else s.sum())
    np.testing.assert_array_equal(np.concatenate(plain.weights), 1.0)
