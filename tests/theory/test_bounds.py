"""The Lemma and Theorem 3 against an independent transcription, and the steps of their proofs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from covshift.theory import generalization_bound, uniform_bound


def random_constants(seed):
    rng = np.random.default_rng(seed)
    m = rng.uniform(0.3, 2)
    return dict(
        M=m * rng.uniform(1, 4),
        L=rng.uniform(0.1, 3),
        G=rng.uniform(1, 6),
        m=m,
        R_f=rng.uniform(0, 1),
        R_g_source=rng.uniform(0, 1),
        R_g_target=rng.uniform(0, 1),
        n_source=int(rng.integers(5, 5000)),
        n_target=int(rng.integers(5, 5000)),
        delta=rng.uniform(0.001, 0.9),
    )


def paper_lemma(J, k, factor=1):
    """The right-hand side as printed, transcribed line by line."""
    root = math.sqrt(math.log(1 / k["delta"]) / 2)
    return (
        J
        + 8 * k["M"] * k["G"] * (k["M"] + k["G"]) * (k["L"] * k["R_f"] + k["R_g_source"])
        + 4 * k["M"] ** 2 * k["R_g_target"]
        + factor * 5 * k["M"] ** 2 * k["G"] ** 2 * root * (k["n_source"] ** -0.5 + k["n_target"] ** -0.5)
    )


def paper_theorem_3(J, k):
    return paper_lemma(J, k, factor=2) + k["M"] ** 2 * k["G"] ** 2 / k["n_source"]


def tight_lemma(J, k, factor=1):
    M, G, m = k["M"], k["G"], k["m"]
    inside = G**4 * (2 * M**2 + m**2) ** 2 / k["n_source"] + 4 * m**4 * G**2 / k["n_target"]
    return (
        J
        + 4 * M * G * (2 * M + G) * k["L"] * k["R_f"]
        + (4 * M * G * (M + 2 * G) + 4 * m**2 * G) * k["R_g_source"]
        + 4 * m**2 * k["R_g_target"]
        + factor * math.sqrt(math.log(1 / k["delta"]) / 2 * inside)
    )


@pytest.mark.parametrize("seed", range(25))
def test_every_statement_equals_its_transcription_and_tight_is_never_looser(seed):
    k = random_constants(seed)
    printed, tight = uniform_bound(0.2, **k), uniform_bound(0.2, **k, tight=True)
    assert printed.value == pytest.approx(paper_lemma(0.2, k), rel=1e-12)
    assert tight.value == pytest.approx(tight_lemma(0.2, k), rel=1e-12)
    printed_3, tight_3 = generalization_bound(0.2, **k), generalization_bound(0.2, **k, tight=True)
    assert printed_3.value == pytest.approx(paper_theorem_3(0.2, k), rel=1e-12)
    variance = k["M"] ** 2 * k["G"] ** 2 / 4 / k["n_source"]
    assert tight_3.value == pytest.approx(tight_lemma(0.2, k, factor=2) + variance, rel=1e-12)
    for loose, sharp in ((printed, tight), (printed_3, tight_3)):
        assert sharp.value <= loose.value
        for bound in (loose, sharp):
            assert bound.value == pytest.approx(sum(bound.terms.values()), rel=1e-12)
            assert bound.vacuous == (bound.value >= k["m"] ** 2 / 2)


def test_a_bound_that_says_something():
    k = dict(M=1, L=1, G=1, R_f=0.0, R_g_source=0.0, R_g_target=0.0, n_source=10**6, n_target=10**6, delta=0.05)
    assert not uniform_bound(0.1, **k).vacuous
    assert uniform_bound(0.5, **k).vacuous


def objective(l, g, g_target, m):
    return np.mean(l * g) ** 2 + m**2 * (np.mean(g**2) - 2 * np.mean(g_target))


def test_bounded_differences_of_the_proof_hold_and_are_reached():
    M, G, m, n = 2.0, 3.0, 1.0, 50
    source, target = (2 * M**2 + m**2) * G**2 / n, 2 * m**2 * G / n
    rng = np.random.default_rng(0)
    for _ in range(300):
        l, g, t = rng.uniform(0, M, n), rng.uniform(0, G, n), rng.uniform(0, G, n)
        extreme = rng.uniform(size=n) < rng.uniform()
        l, g, t = np.where(extreme, M, l), np.where(extreme, G, g), np.where(extreme, G, t)
        l2, g2, t2 = l.copy(), g.copy(), t.copy()
        l2[0], g2[0], t2[0] = rng.choice([0.0, M]), rng.choice([0.0, G]), rng.choice([0.0, G])
        assert abs(objective(l, g, t, m) - objective(l2, g2, t, m)) <= source * (1 + 1e-12)
        assert abs(objective(l, g, t, m) - objective(l, g, t2, m)) <= target * (1 + 1e-12)
    # reached up to 1 / n by the extreme sample
    l, g, t = np.full(n, M), np.full(n, G), np.full(n, G)
    l2, g2, t2 = l.copy(), g.copy(), t.copy()
    l2[0] = g2[0] = t2[0] = 0.0
    change = objective(l, g, t, m) - objective(l2, g2, t, m)
    assert source * (1 - 1 / n) <= change <= source
    assert abs(objective(l, g, t, m) - objective(l, g, t2, m)) == pytest.approx(target)
    # the paper's constants for the same two steps: 5 M^2 G^2 / n, for both
    assert source <= 5 * M**2 * G**2 / n and target <= 5 * M**2 * G**2 / n


def test_popoviciu_is_reached_by_a_fair_coin():
    M, G = 1.5, 2.0
    assert np.var([0.0, M * G]) == (M * G) ** 2 / 4


def test_polarisation_step_of_the_proof():
    # l g = ((l + g)^2 - l^2 - g^2) / 2 and the squares are Lipschitz on the ranges that the proof names
    M, G = 1.5, 4.0
    l, g = np.meshgrid(np.linspace(0, M, 50), np.linspace(-G, G, 81))
    assert np.allclose(l * g, ((l + g) ** 2 - l**2 - g**2) / 2)
    assert np.abs(l + g).max() == M + G


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 0.0}, r"delta=0\.0: expected a number in \(0, 1\]"),
        ({"delta": 1.0}, r"delta=1\.0: expected a number in \(0, 1\);.*try 0\.05"),
        ({"delta": 1.5}, r"delta=1\.5: expected"),
        ({"delta": float("nan")}, r"delta=nan: expected"),
        ({"M": 0.5}, r"M=0\.5 is below m=1.*pass M=max\(M, m\)"),
        ({"G": 0.5}, r"G=0\.5: expected G >= 1.*pass G=max\(G, 1\)"),
        ({"L": -1.0}, r"L=-1\.0: expected a number in \(0"),
        ({"R_f": -0.1}, r"R_f=-0\.1: expected a number in \[0"),
        ({"R_g_source": float("inf")}, r"R_g_source=inf: expected"),
        ({"M": float("inf")}, r"M=inf: expected"),
        ({"G": 1e40}, r"G=1e\+40: expected a number in \[0, 1e\+30\]"),
        ({"n_source": 0}, r"n_source=0: expected an integer >= 1"),
        ({"n_target": -5}, r"n_target=-5: expected an integer >= 1"),
    ],
)
@pytest.mark.parametrize("bound", [uniform_bound, generalization_bound])
def test_bad_constants_are_refused_by_name(bound, change, message):
    k = dict(M=1.0, L=1.0, G=2.0, R_f=0.1, R_g_source=0.1, R_g_target=0.1, n_source=10, n_target=10, delta=0.1)
    with pytest.raises(ValueError, match=message):
        bound(0.1, **(k | change))


def test_bad_objectives_are_refused():
    k = dict(M=1.0, L=1.0, G=2.0, R_f=0.1, R_g_source=0.1, R_g_target=0.1, n_source=10, n_target=10, delta=0.1)
    with pytest.raises(ValueError, match=r"J_hat=nan"):
        uniform_bound(float("nan"), **k)
    with pytest.raises(ValueError, match=r"J_min=-0\.1"):
        generalization_bound(-0.1, **k)
