"""Theorem 2 for a fitted model, with constants read off it; and the variant that is a probability statement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from covshift._checks import check_choice, check_number
from covshift.losses import Loss
from covshift.theory._bounds import Bound, uniform_bound
from covshift.theory._rademacher import rademacher_complexity

__all__ = ["PluginBound", "a_priori_bound", "loss_constants", "plugin_bound"]

NOTE = (
    "Plug-in constants: this is not a 1 - delta statement. Radii, centres, bandwidths and regularisation saw the "
    "data, C is an estimate, and an unpenalised intercept lies outside the ball. For a valid one see "
    "covshift.theory.a_priori_bound."
)
_MAX = float(np.finfo(np.float64).max)
_GRID = 4097


@dataclass(frozen=True)
class PluginBound:
    """`value`, `terms`, `vacuous` as in `Bound`, and what to make of them.

    `blame` is the largest term; `constants` the plugged-in M, L, G and complexities; `n_needed` the number of source
    rows (target rows in the same proportion) from which the value is below m^2 / 2 if nothing else changes, inf
    where the objective alone is not; `note` what the number is not.
    """

    value: float
    terms: Mapping[str, float]
    vacuous: bool
    blame: str
    n_needed: float
    constants: Mapping[str, float]
    note: str


def loss_constants(loss: Loss, f_max: float, y_min: float, y_max: float, factor: float = 1.0) -> tuple[float, float]:
    """(M, L): sup and Lipschitz constant of factor * loss over |f| <= f_max and y_min <= y <= y_max.

    Every loss of the registry grows away from f = y, so M is at an end of the range of the residual (regression) or
    margin (classification). L is scanned on 4097 points of it, exact for convex losses, whose slope is largest at an
    end; for the bounded ones, whose slope is zero to double precision beyond 20 s, it is rounded up by 1e-4.
    """
    check_number("f_max", f_max, 0.0, _MAX)
    if loss.task == "multiclass":
        raise ValueError(
            f"loss={loss.name!r} takes one score a class, and the theorems hold for one real score: use a binary loss"
        )
    if loss.task == "classification":
        ends, y = np.array([-f_max, f_max]), np.ones(1)
    else:
        # the loss depends on f - y only, which fills this interval
        ends, y = np.array([-f_max - y_max, f_max - y_min]), np.zeros(1)
    M = factor * float(np.max(loss.value(ends, y)))
    bounded = math.isfinite(loss.bound)
    reach = 20.0 * getattr(loss, "scale", 1.0) if bounded else math.inf
    low, high = np.clip(ends, -reach, reach)
    slope = float(np.max(np.abs(loss.derivative(np.linspace(low, high, _GRID), y))))
    return M, factor * slope * (1.0 + 1e-4 if bounded else 1.0)


def _constants_of_g(
    Psi_source: np.ndarray, Psi_target: np.ndarray, radius: float, shrink: str, tight: bool
) -> dict[str, float]:
    """G and both complexities of g; the tight Lemma needs only G+ on the target.

    sup of g over the class and these rows: B ||psi_+|| for beta >= 0, 1 + B ||psi|| for max(1 + beta'psi, 0).
    """
    check_choice("shrink", shrink, ("zero", "one"))
    both_signs, alone = ("nonnegative_pm", "nonnegative") if shrink == "zero" else ("one_plus_pm", "one_plus")
    largest = 0.0
    for Psi in (Psi_source, Psi_target):
        felt = np.maximum(Psi, 0.0) if shrink == "zero" else np.asarray(Psi)
        largest = max(largest, radius * float(np.sqrt((felt**2).sum(axis=1)).max()))
    return {
        "G": max(1.0, largest if shrink == "zero" else 1.0 + largest),
        "R_g_source": rademacher_complexity(Psi_source, radius, model=both_signs),
        "R_g_target": rademacher_complexity(Psi_target, radius, model=alone if tight else both_signs),
    }


def rows_needed(bound: Bound, n_source: int, m: float, fixed: tuple[str, ...]) -> float:
    """Source rows from which the bound is below m^2 / 2: all terms but `fixed` ones fall as 1/sqrt n."""
    room = m**2 / 2.0 - sum(bound.terms[name] for name in fixed)
    if room <= 0:
        return math.inf
    shrinking = sum(value for name, value in bound.terms.items() if name not in fixed)
    return float(math.ceil(n_source * (shrinking / room) ** 2))


def plugin_bound(
    *,
    J_hat: float,
    C: float,
    radius_f: float,
    radius_g: float,
    Phi: np.ndarray,
    Psi_source: np.ndarray,
    Psi_target: np.ndarray,
    y: np.ndarray,
    loss: Loss,
    factor: float = 1.0,
    shrink: str = "zero",
    m: float = 1.0,
    delta: float = 0.05,
    tight: bool = True,
) -> PluginBound:
    """Theorem 2 at a fitted (f, g): R(f)^2 / 2 <= J_hat + m^2 C + complexities + deviation, constants plugged in.

        f_max = B_f max ||phi||,  M, L = sup and slope of factor * loss on |f| <= f_max,  G = sup of g over the class

    It is *not* a 1 - delta statement (see `note`): the class was chosen with the data. `a_priori_bound` is one.

    Parameters
    ----------
    J_hat : float
        Empirical objective of factor * loss at (f, clipped g), without C.
    C : float
        Estimate of the constant E_source[r^2].
    radius_f, radius_g : float
        |alpha| and |beta| of the fitted model.
    Phi, Psi_source, Psi_target : arrays
        Features of f on source rows, of g on source and on target rows.
    y : array
        Labels (-1/+1) or, for regression, targets in the units that f is fitted in, its intercept subtracted.
    factor : float
        Factor by which the loss dominates the bounded loss of R; `loss.domination()` has it.
    """
    if radius_f == math.inf:
        raise ValueError(
            "radius_f=inf: this f lies in no ball, so its loss has no bound and the theorem says nothing; use a "
            "linear-in-parameter model (OneStepRegressor, OneStepClassifier)"
        )
    constants = plugin_constants(
        radius_f=radius_f,
        radius_g=radius_g,
        Phi=Phi,
        Psi_source=Psi_source,
        Psi_target=Psi_target,
        y=y,
        loss=loss,
        factor=factor,
        shrink=shrink,
        m=m,
        tight=tight,
    )
    return bound_from_constants(
        constants, J_hat=J_hat, C=C, n_source=len(Psi_source), n_target=len(Psi_target), m=m, delta=delta, tight=tight
    )


def plugin_constants(
    *,
    radius_f: float,
    radius_g: float,
    Phi: np.ndarray,
    Psi_source: np.ndarray,
    Psi_target: np.ndarray,
    y: np.ndarray,
    loss: Loss,
    factor: float,
    shrink: str,
    m: float,
    tight: bool,
) -> dict[str, float]:
    """M, L, G and the three complexities that `plugin_bound` plugs in; its parameters."""
    check_number("radius_f", radius_f, 0.0, _MAX)
    check_number("radius_g", radius_g, 0.0, _MAX)
    f_max = radius_f * float(np.sqrt((np.asarray(Phi) ** 2).sum(axis=1)).max())
    M, L = loss_constants(loss, f_max, float(np.min(y)), float(np.max(y)), factor)
    constants = {"M": max(M, m), "L": L, "R_f": rademacher_complexity(Phi, radius_f)}
    return constants | _constants_of_g(Psi_source, Psi_target, radius_g, shrink, tight)


def bound_from_constants(
    constants: Mapping[str, float],
    *,
    J_hat: float,
    C: float,
    n_source: int,
    n_target: int,
    m: float,
    delta: float,
    tight: bool,
) -> PluginBound:
    """`plugin_bound` once the constants are known."""
    check_number("J_hat", J_hat, -_MAX, _MAX)
    check_number("C", C, 0.0, _MAX)
    printed = uniform_bound(J_hat, m=m, n_source=n_source, n_target=n_target, delta=delta, tight=tight, **constants)
    terms = {"objective": J_hat, "constant": m**2 * C, **{k: v for k, v in printed.terms.items() if k != "objective"}}
    value = math.fsum(terms.values())
    bound = Bound(value, terms, value >= m**2 / 2.0)
    return PluginBound(
        value=value,
        terms=terms,
        vacuous=bound.vacuous,
        blame=max(terms, key=lambda name: terms[name]),
        n_needed=rows_needed(bound, n_source, m, fixed=("objective", "constant")),
        constants=constants,
        note=NOTE,
    )


def a_priori_bound(
    *,
    J_hat: float,
    C_max: float,
    loss: Loss,
    y_min: float,
    y_max: float,
    kappa_f: float,
    kappa_g: float,
    reg_f: float,
    reg_g: float,
    n_source: int,
    n_target: int,
    delta: float = 0.05,
    factor: float = 1.0,
    m: float = 1.0,
) -> Bound:
    """Theorem 2 as a true 1 - delta statement about Algorithm 1 (shrink zero, no search).

        B_g = m^2 kappa_g / reg_g,   G = max(1, B_g kappa_g),   B_f = sqrt(G sup_y l(0, y) / reg_f)

    Valid because nothing in it saw the rows that J_hat is computed on. The caller vouches for: centres, bandwidths
    and regularisation fixed beforehand or on a split; y_min <= y <= y_max always; kappa = sup_x ||phi(x)|| (Gaussian
    basis: at most sqrt b; sqrt(b + 1) with an intercept, which has to be a penalised constant feature inside the
    ball); C_max >= E_source[r^2], for instance a known sup of r; l(f, y) >= the bounded loss of R after `factor`.
    The radii hold because (H + u u'/m^2 + reg_g/m^2 I) beta = h with ||h|| <= kappa_g and clipping shrinks beta, and
    because the f-step's minimum (of mean w l + reg_f |alpha|^2, without the factor) is at most its value at 0.

    Parameters
    ----------
    J_hat : float
        Empirical objective of factor * loss at the fitted (f, clipped g), without C.
    """
    for name, number in {"kappa_f": kappa_f, "kappa_g": kappa_g, "reg_f": reg_f, "reg_g": reg_g}.items():
        check_number(name, number, 0.0, _MAX, open_low=True)
    check_number("C_max", C_max, 1.0, _MAX)  # E[r^2] >= (E r)^2 = 1
    if not y_min <= y_max:
        raise ValueError(f"y_min={y_min:g} is above y_max={y_max:g}: give the known range of y, smaller end first")
    B_g = m**2 * kappa_g / reg_g
    G = max(1.0, B_g * kappa_g)
    at_zero = float(np.max(loss.value(np.zeros(2), np.array([y_min, y_max]))))
    B_f = math.sqrt(G * at_zero / reg_f)
    M, L = loss_constants(loss, B_f * kappa_f, y_min, y_max, factor)
    return uniform_bound(
        J_hat + m**2 * C_max,
        M=max(M, m),
        L=L,
        G=G,
        m=m,
        R_f=B_f * kappa_f / math.sqrt(n_source),
        R_g_source=B_g * kappa_g / math.sqrt(n_source),
        R_g_target=B_g * kappa_g / math.sqrt(2.0 * n_target),
        n_source=n_source,
        n_target=n_target,
        delta=delta,
        tight=True,
    )
