"""Losses, one a file; `LOSSES` is the registry that the tests and the estimators' parameters go through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from covshift._checks import check_choice

from ._absolute import Absolute
from ._base import Loss
from ._cross_entropy import CrossEntropy
from ._hinge import Hinge
from ._huber import Huber
from ._logistic import Logistic
from ._squared import Squared
from ._tukey import Tukey
from ._welsch import Welsch
from ._zero_one import ZeroOne

__all__ = [
    "LOSSES",
    "Absolute",
    "CrossEntropy",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Squared",
    "Tukey",
    "Welsch",
    "ZeroOne",
    "get_loss",
]

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Squared, Tukey, Welsch, Absolute, Huber, Hinge, Logistic, CrossEntropy, ZeroOne)
}


def get_loss(name: str, *, scale: float = 1.0, **constants: float) -> Loss:
    """The loss of that name; `scale` is s of the regression losses, `constants` other fields (delta).

    >>> get_loss("tukey", scale=2.0)
    Tukey(scale=2.0)
    """
    check_choice("loss", name, LOSSES)
    known = {field.name for field in fields(LOSSES[name])}
    given = dict(constants) if scale == 1.0 else {"scale": scale, **constants}
    for argument in given:
        if argument not in known:
            takes = ", ".join(sorted(known)) or "no constants"
            raise ValueError(
                f"{argument}={given[argument]!r} is not a constant of loss={name!r}, which takes {takes}"
            )
    make: Callable[..., Loss] = LOSSES[name]
    return make(**given)
