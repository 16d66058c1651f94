"""The rows of the third table: each method is a setting of one loop."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

__all__ = ["FURTHER", "METHODS", "PAPER", "Method", "method_named"]


@dataclass(frozen=True)
class Method:
    """A method by its printed name and the `OneStepTrainer` settings that make it.

    `weights` may also be "true": the importance of the angle, which no method without the angle can know.
    `rate_g` is g's SGD rate, `renew` the epochs for which the pretrained classifier goes on before each later round
    (`Pretraining.renew`). `alternates` tells the one-step schedule from g first, f after.
    """

    name: str
    weights: str = "one-step"
    flattening: float = 1.0
    relative_alpha: float = 0.0
    loss_bound: float = 1.0
    output_g: str = "linear"
    bound_alpha: float = 0.5
    start_g: str = "logit"
    rate_g: float = 1e-4
    renew: int = 0

    @property
    def trains_g(self) -> bool:
        """Whether g goes on learning after its pretraining."""
        return self.weights in ("one-step", "ulsif", "rulsif")

    @property
    def alternates(self) -> bool:
        """Whether g learns beside f."""
        return self.weights == "one-step"

    @property
    def uses_losses(self) -> bool:
        """Whether f's losses enter g's objective."""
        return self.alternates and not math.isinf(self.loss_bound)


# Chosen on held-out source images at (2, 4) and (2, 6) without any target label: see `results/images/README.md`.
ONE_STEP = Method("one-step", output_g="relative", bound_alpha=0.02, relative_alpha=0.02, flattening=0.75)
PAPER = (
    Method("ERM", "uniform"),
    Method("EIWERM", "ulsif", flattening=0.5),
    Method("RIWERM", "rulsif", relative_alpha=0.5),
    ONE_STEP,
)
CONTROLS = (
    replace(ONE_STEP, name="control: without the loss term", loss_bound=math.inf),
    Method("control: one-step as printed"),
    Method("control: classifier p/(1-p)", "classifier", output_g="exp"),
    Method("control: classifier p/(1-p), square root", "classifier", output_g="exp", flattening=0.5),
    Method("control: true importance", "true"),
    Method("control: true importance, square root", "true", flattening=0.5),
    Method("control: true importance, relative", "true", relative_alpha=0.5),
)
METHODS = PAPER + CONTROLS
# A later choice of g by the same kind of screening, which turned out worse, and what it was to be told apart from:
# told in `results/images/README.md`, run only when named.
LATER = replace(ONE_STEP, name="control: one-step, later choice of g", flattening=0.5, rate_g=1e-5, renew=1)
FURTHER = (
    LATER,
    replace(LATER, name="control: later choice, without the loss term", loss_bound=math.inf),
    Method("control: classifier trained on, square root", "classifier", output_g="exp", flattening=0.5, renew=1),
)


def method_named(name: str) -> Method:
    """The method with this printed name; the error lists what exists."""
    for method in METHODS + FURTHER:
        if method.name == name:
            return method
    from covshift._checks import check_choice

    check_choice("methods", name, [method.name for method in METHODS + FURTHER])
    raise AssertionError
