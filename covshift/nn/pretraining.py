"""Pretraining of g as a classifier of source against target; the paper does not say how, so it is a parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from covshift.nn.objective import weighted_mean

__all__ = ["OptimizerFactory", "Pretraining", "classifier_loss", "resolve_pretraining"]

OptimizerFactory = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


@dataclass(frozen=True)
class Pretraining:
    """`epochs` of Adam at rate `lr`, or of the optimiser that `optimizer(parameters)` returns.

    With `renew` > 0 the classifier goes on training for so many epochs at the start of every later round: g's frozen
    layers are the renewed ones, and its head starts from the classifier's again.
    """

    epochs: int = 10
    lr: float = 1e-3
    optimizer: OptimizerFactory | None = None
    renew: int = 0

    def make(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """The optimiser of the pretraining."""
        if self.optimizer is not None:
            return self.optimizer(parameters)
        return torch.optim.Adam(parameters, lr=self.lr)

    def epochs_of_round(self, t: int) -> range:
        """The numbers, counted through the run, of the epochs that round t begins with."""
        first = self.epochs + (t - 1) * self.renew
        return range(first, first + self.renew) if t else range(self.epochs)


def classifier_loss(o_source: Tensor, o_target: Tensor, s: Tensor | None = None) -> Tensor:
    """(mean_s softplus(o) + mean_t softplus(-o)) / 2: both samples count alike, so e^o estimates the ratio itself."""
    return 0.5 * (weighted_mean(functional.softplus(o_source), s) + functional.softplus(-o_target).mean(dim=-1))


def resolve_pretraining(pretrain_g: bool | int | Pretraining) -> Pretraining | None:
    """False, 0: none. True: the defaults. A number: that many epochs."""
    if isinstance(pretrain_g, Pretraining):
        if pretrain_g.renew and pretrain_g.epochs <= 0:
            raise ValueError(f"{pretrain_g!r} renews a classifier that was never trained; give it epochs.")
        return pretrain_g if pretrain_g.epochs > 0 else None
    if isinstance(pretrain_g, bool):
        return Pretraining() if pretrain_g else None
    if isinstance(pretrain_g, int) and pretrain_g >= 0:
        return Pretraining(epochs=pretrain_g) if pretrain_g else None
    raise ValueError(f"pretrain_g must be a bool, a number of epochs or a Pretraining, got {pretrain_g!r}.")
