"""The paper's Lemma, Theorem 2 and Theorem 3, every term by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from covshift._checks import check_count, check_number

__all__ = ["Bound", "generalization_bound", "uniform_bound"]

_MAX = float(np.finfo(np.float64).max)
_LARGEST = 1e30  # of M, L, G, m: their eighth powers stay finite


@dataclass(frozen=True)
class Bound:
    """A bound and what it is made of: `value` is the sum of `terms`; `vacuous` where it says nothing.

    The bounds are on R^2 / 2 (or J_UB), and R <= m always holds, so value >= m^2 / 2 says nothing.
    """

    value: float
    terms: Mapping[str, float]
    vacuous: bool


@dataclass(frozen=True)
class _Constants:
    """What both statements share; the letters are the paper's."""

    M: float
    L: float
    G: float
    m: float
    R_f: float
    R_g_source: float
    R_g_target: float
    n_source: int
    n_target: int
    delta: float

    def __post_init__(self) -> None:
        for name in ("M", "L", "m"):
            check_number(name, getattr(self, name), 0.0, _LARGEST, open_low=True)
        for name in ("R_f", "R_g_source", "R_g_target"):
            check_number(name, getattr(self, name), 0.0, _MAX)
        check_number("G", self.G, 0.0, _LARGEST)
        for name in ("n_source", "n_target"):
            check_count(name, getattr(self, name))
        check_number("delta", self.delta, 0.0, 1.0, open_low=True)
        if self.delta == 1.0:
            raise ValueError(
                "delta=1.0: expected a number in (0, 1); a bound that may always fail says nothing, try 0.05"
            )
        if self.M < self.m:
            raise ValueError(
                f"M={self.M:g} is below m={self.m:g}: M bounds the loss that dominates the one bounded by m, so it "
                f"cannot be smaller; pass M=max(M, m)"
            )
        if self.G < 1.0:
            raise ValueError(
                f"G={self.G:g}: expected G >= 1, because weights of mean one reach one; pass G=max(G, 1), which is "
                f"valid for every class bounded by G"
            )

    def printed(self, deviations: float) -> dict[str, float]:
        """The terms beyond the objective as the paper prints them; `deviations` is 1 in the Lemma, 2 in Theorem 3."""
        M, G = self.M, self.G
        outer = 8.0 * M * G * (M + G)
        root = deviations * 5.0 * M**2 * G**2 * math.sqrt(math.log(1.0 / self.delta) / 2.0)
        return {
            "complexity_f": outer * self.L * self.R_f,
            "complexity_g_source": outer * self.R_g_source,
            "complexity_g_target": 4.0 * M**2 * self.R_g_target,
            "deviation_source": root / math.sqrt(self.n_source),
            "deviation_target": root / math.sqrt(self.n_target),
        }

    def tight(self, deviations: float) -> dict[str, float]:
        """The terms that the proofs give, redone in docs/theory.md."""
        M, G, m = self.M, self.G, self.m
        # squared sums of the bounded differences, source and target rows
        squares = (G**2 * (2.0 * M**2 + m**2)) ** 2 / self.n_source + (2.0 * m**2 * G) ** 2 / self.n_target
        return {
            "complexity_f": 4.0 * M * G * (2.0 * M + G) * self.L * self.R_f,
            "complexity_g_source": (4.0 * M * G * (M + 2.0 * G) + 4.0 * m**2 * G) * self.R_g_source,
            "complexity_g_target": 4.0 * m**2 * self.R_g_target,
            "deviation": deviations * math.sqrt(math.log(1.0 / self.delta) / 2.0 * squares),
        }


def as_bound(terms: Mapping[str, float], m: float) -> Bound:
    """The terms, their sum, and whether it says anything."""
    value = math.fsum(terms.values())
    return Bound(value=value, terms=dict(terms), vacuous=value >= m**2 / 2.0)


def uniform_bound(
    J_hat: float,
    *,
    M: float,
    L: float,
    G: float,
    m: float = 1.0,
    R_f: float,
    R_g_source: float,
    R_g_target: float,
    n_source: int,
    n_target: int,
    delta: float,
    tight: bool = False,
) -> Bound:
    """The Lemma: with probability >= 1 - delta, for all f in F and g in G+ at once,

        J_UB(f, g) <= J_hat(f, g; S) + 8 M G (M + G) (L R_f + R_g_source) + 4 M^2 R_g_target
                      + 5 M^2 G^2 sqrt(log(1/delta) / 2) (1/sqrt n_source + 1/sqrt n_target).

    With J_hat at the best g of G+ it is Theorem 2, a bound on R(f)^2 / 2. `tight=True` keeps what the proof gives:

        J_hat + 4 M G (2M + G) L R_f + [4 M G (M + 2G) + 4 m^2 G] R_g_source + 4 m^2 R_g_target
        + sqrt(log(1/delta) / 2 [G^4 (2M^2 + m^2)^2 / n_source + 4 m^4 G^2 / n_target]).

    Parameters
    ----------
    J_hat : float
        The empirical objective, constant C included.
    M, L : float
        sup and Lipschitz constant (in f) of the dominating loss over the class; M >= m.
    G, m : float
        sup of g over the class, at least 1; bound of the loss that the risk is defined with.
    R_f, R_g_source, R_g_target : float
        Rademacher complexities of F and of G = G+ and -G+ on the source, of G (G+ suffices if tight) on the target.

    Examples
    --------
    >>> b = uniform_bound(0.1, M=1, L=1, G=2, R_f=0, R_g_source=0, R_g_target=0, n_source=400, n_target=400,
    ...                   delta=0.05)
    >>> sorted(b.terms), b.vacuous
    (['complexity_f', 'complexity_g_source', 'complexity_g_target', 'deviation_source', 'deviation_target',
      'objective'], True)
    """
    check_number("J_hat", J_hat, -_MAX, _MAX)
    constants = _Constants(M, L, G, m, R_f, R_g_source, R_g_target, n_source, n_target, delta)
    terms = constants.tight(1.0) if tight else constants.printed(1.0)
    return as_bound({"objective": float(J_hat), **terms}, m)


def generalization_bound(
    J_min: float,
    *,
    M: float,
    L: float,
    G: float,
    m: float = 1.0,
    R_f: float,
    R_g_source: float,
    R_g_target: float,
    n_source: int,
    n_target: int,
    delta: float,
    tight: bool = False,
) -> Bound:
    """Theorem 3: with probability >= 1 - delta the minimiser (f^, g^) of J_hat over F x G+ has

        R(f^)^2 / 2 <= min J_UB + 8 M G (M + G) (L R_f + R_g_source) + 4 M^2 R_g_target
                       + 10 M^2 G^2 sqrt(log(1/delta) / 2) (1/sqrt n_source + 1/sqrt n_target) + M^2 G^2 / n_source.

    `J_min` is min J_UB over F x G+ (at most R_UB(f*)^2 where r is in G+); other parameters as in `uniform_bound`.
    `tight=True`: the complexities of `uniform_bound(tight=True)`, its root twice, and M^2 G^2 / (4 n_source).

    Examples
    --------
    >>> b = generalization_bound(0.1, M=1, L=1, G=2, R_f=0, R_g_source=0, R_g_target=0, n_source=400, n_target=400,
    ...                          delta=0.05)
    >>> b.terms["variance"]
    0.01
    """
    check_number("J_min", J_min, 0.0, _MAX)
    constants = _Constants(M, L, G, m, R_f, R_g_source, R_g_target, n_source, n_target, delta)
    terms = constants.tight(2.0) if tight else constants.printed(2.0)
    # Popoviciu: a variable in [0, M G] has variance at most (M G)^2 / 4
    variance = M**2 * G**2 / n_source / (4.0 if tight else 1.0)
    return as_bound({"objective": float(J_min), **terms, "variance": variance}, m)
