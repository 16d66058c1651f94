"""Losses a row for networks: functions of (output, y) that return one number for each row of the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["LOSSES", "NetLoss", "RowLoss", "resolve_loss"]

RowLoss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(output: Tensor, y: Tensor) -> Tensor:
    """-log softmax(output)_y, in nats (divide by ln 2 to dominate the zero-one loss)."""
    return functional.cross_entropy(output, y, reduction="none")


def squared(output: Tensor, y: Tensor) -> Tensor:
    """(output - y)^2."""
    return (output - y) ** 2


def absolute(output: Tensor, y: Tensor) -> Tensor:
    """|output - y|."""
    return (output - y).abs()


def huber(output: Tensor, y: Tensor, delta: float = 1.345) -> Tensor:
    """r^2 / 2 for |r| <= delta, delta (|r| - delta / 2) beyond."""
    return functional.huber_loss(output, y, reduction="none", delta=delta)


def tukey(output: Tensor, y: Tensor, rho: float = 4.685) -> Tensor:
    """1 - (1 - min(r^2 / rho^2, 1))^3: the paper's bounded loss."""
    return 1.0 - (1.0 - ((output - y) / rho) ** 2).clamp_min(0.0) ** 3


@dataclass(frozen=True)
class NetLoss:
    """A loss a row, whether y holds class numbers, and whether it is a user's, whose output may have any shape."""

    name: str
    function: RowLoss
    classification: bool
    own: bool = False

    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        """One loss a row in float32 or better; refuses a loss that was averaged over the batch."""
        output = output if output.dtype == torch.float64 else output.float()
        if not self.own and y.ndim == 2 and y.shape[1] == 1:
            y = y.squeeze(1)
        if not self.classification:
            y = y.to(output.dtype)
            if output.ndim == 2 and output.shape[1] == 1 and y.ndim == 1:
                output = output.squeeze(1)
            if not self.own and output.shape != y.shape:
                raise ValueError(
                    f"f gives outputs of shape {tuple(output.shape)} for y of shape {tuple(y.shape)}; with loss="
                    f"{self.name!r} a network must end in one number a row, and y hold one."
                )
        l = self.function(output, y)
        if l.shape != (len(y),):
            raise ValueError(
                f"loss={self.name!r} returned shape {tuple(l.shape)} for a batch of {len(y)} rows; it must return "
                "one loss a row, not their mean (in torch losses: reduction='none')."
            )
        return l


LOSSES: dict[str, NetLoss] = {
    "cross_entropy": NetLoss("cross_entropy", cross_entropy, True),
    "squared": NetLoss("squared", squared, False),
    "absolute": NetLoss("absolute", absolute, False),
    "huber": NetLoss("huber", huber, False),
    "tukey": NetLoss("tukey", tukey, False),
}


def resolve_loss(loss: str | RowLoss, y: Tensor | None = None) -> NetLoss:
    """The named loss, or the user's function; for a function, integer y means classes."""
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(
                f"loss={loss!r} is not one of {sorted(LOSSES)}; or pass a function (output, y) -> row losses."
            )
        return LOSSES[loss]
    if not callable(loss):
        raise TypeError(f"loss must be a name or a function (output, y) -> row losses, got {type(loss).__name__}.")
    name = getattr(loss, "__name__", type(loss).__name__)
    return NetLoss(name, loss, y is not None and not y.is_floating_point(), own=True)
