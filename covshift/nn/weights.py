"""How a weight model's output becomes a weight, and which epochs each weighting method runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["MODES", "OUTPUTS", "Mode", "RoundPlan", "g_value", "plan_rounds", "resolve_mode", "to_weight"]

OUTPUTS = ("linear", "softplus", "exp", "relative")
_LARGEST_LOG_RATIO = 30.0  # exp stays finite, and its square too, in float32


def g_value(o: Tensor, output: str, bound_alpha: float = 0.5) -> Tensor:
    """g as a function of the network's output o.

    "linear": o (the paper's; may be negative). "softplus": log(1 + e^o). "exp": e^o, so o is a log ratio.
    "relative": 1 / (a + (1-a) e^-o) with a = `bound_alpha`, the relative ratio whose log ratio is o, below 1/a.
    """
    if output == "linear":
        return o
    if output == "softplus":
        return functional.softplus(o)
    o = o.clamp(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO)
    if output == "exp":
        return o.exp()
    return 1.0 / (bound_alpha + (1.0 - bound_alpha) * (-o).exp())


def to_weight(g: Tensor, flattening: float = 1.0) -> Tensor:
    """w = max(g, 0)^gamma; gamma = 0 gives ones."""
    if flattening == 0.0:
        return torch.ones_like(g)
    w = g.clamp_min(0.0)
    return w if flattening == 1.0 else w**flattening


@dataclass(frozen=True)
class Mode:
    """What a weighting method needs: a network g, f's losses in g's objective, g trained before f or beside it."""

    name: str
    uses_g: bool
    uses_losses: bool
    alternates: bool
    relative_alpha: float = 0.0
    trains_g: bool = True


MODES: dict[str, Mode] = {
    "one-step": Mode("one-step", uses_g=True, uses_losses=True, alternates=True),
    "ulsif": Mode("ulsif", uses_g=True, uses_losses=False, alternates=False),
    "rulsif": Mode("rulsif", uses_g=True, uses_losses=False, alternates=False, relative_alpha=0.5),
    "classifier": Mode("classifier", uses_g=True, uses_losses=False, alternates=False, trains_g=False),
    "uniform": Mode("uniform", uses_g=False, uses_losses=False, alternates=False, trains_g=False),
}


def resolve_mode(weights: str | Callable[[Tensor], Tensor]) -> Mode:
    """The named mode; a callable gives the weights itself and needs no g."""
    if callable(weights):
        return Mode("callable", uses_g=False, uses_losses=False, alternates=False, trains_g=False)
    if weights not in MODES:
        raise ValueError(f"weights={weights!r} is not one of {sorted(MODES)}; or pass a function of the rows.")
    return MODES[weights]


@dataclass(frozen=True)
class RoundPlan:
    """The epochs of one round."""

    epochs_g: int
    epochs_f: int


def plan_rounds(mode: Mode, rounds: int, epochs_g: int, epochs_f: int) -> list[RoundPlan]:
    """Algorithm 2's alternation, or for a two-step method all of g's epochs before the first of f."""
    if not mode.trains_g:
        return [RoundPlan(0, epochs_f)] * rounds
    if mode.alternates:
        return [RoundPlan(epochs_g, epochs_f)] * rounds
    return [RoundPlan(rounds * epochs_g, epochs_f)] + [RoundPlan(0, epochs_f)] * (rounds - 1)
