"""Everything a run needs in order to go on where it was: networks, optimisers, place in the schedule, records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from covshift.nn.checkpoint import flatten_optimizer, restore_optimizer

__all__ = ["PHASES", "Cursor", "RunState", "plain"]

PHASES = ("pretrain", "g", "f")


@dataclass
class Cursor:
    """The next step to take: round, phase, epoch within the phase, step within the epoch."""

    round: int = 0
    phase: str = "pretrain"
    epoch: int = 0
    step: int = 0

    def epochs_left(self, phase: str, t: int, count: int) -> Iterator[tuple[int, int]]:
        """(epoch, first step) of every epoch of this phase that is not done yet."""
        place, here = (t, PHASES.index(phase)), (self.round, PHASES.index(self.phase))
        if place < here:
            return
        start, step = (self.epoch, self.step) if place == here else (0, 0)
        for epoch in range(start, count):
            yield epoch, step if epoch == start else 0


def _empty_sums() -> dict[str, float]:
    names = ("loss", "steps_f", "skipped", "objective", "risk", "ratio", "steps_g", "w", "w2", "rows")
    return dict.fromkeys(names, 0.0)


@dataclass
class RunState:
    """Networks and optimisers of a run with its place and its records."""

    f: nn.Module
    opt_f: torch.optim.Optimizer
    scheduler: Any = None
    g: nn.Module | None = None
    opt_g: torch.optim.Optimizer | None = None
    opt_pretrain: torch.optim.Optimizer | None = None
    cursor: Cursor = field(default_factory=Cursor)
    precision: str = "float32"
    history: list[dict[str, Any]] = field(default_factory=list)
    sums: dict[str, float] = field(default_factory=_empty_sums)
    reference: Tensor | None = None  # validation weights, fixed once
    classifier_head: dict[str, Tensor] = field(default_factory=dict)  # of g, where the classifier goes on each round
    best_round: int = -1
    best: dict[str, Tensor] = field(default_factory=dict)
    stopped: bool = False
    noise: Tensor | None = None  # torch's global generators inside an epoch (dropout)
    cuda_noise: Tensor | None = None

    def clear_sums(self) -> None:
        """Start the next round's record."""
        self.sums = _empty_sums()

    def network_tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers of f and g."""
        tensors = {f"f.{key}": value for key, value in self.f.state_dict().items()}
        if self.g is not None:
            tensors |= {f"g.{key}": value for key, value in self.g.state_dict().items()}
        return tensors

    def load_networks(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `network_tensors`."""
        self.f.load_state_dict({k[2:]: v for k, v in tensors.items() if k.startswith("f.")})
        if self.g is not None:
            self.g.load_state_dict({k[2:]: v for k, v in tensors.items() if k.startswith("g.")})

    def keep_best(self, t: int) -> None:
        """Remember the networks as they are now."""
        self.best_round = t
        self.best = {key: value.detach().clone() for key, value in self.network_tensors().items()}

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        named = {"opt_f": self.opt_f, "opt_g": self.opt_g, "opt_pretrain": self.opt_pretrain}
        return {name: optimizer for name, optimizer in named.items() if optimizer is not None}

    def dump(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """(tensors, JSON facts)."""
        tensors = self.network_tensors() | {f"best.{key}": value for key, value in self.best.items()}
        tensors |= {f"classifier.{key}": value for key, value in self.classifier_head.items()}
        for name in ("reference", "noise", "cuda_noise"):
            if getattr(self, name) is not None:
                tensors[f"extra.{name}"] = getattr(self, name)
        optimizers = {}
        for name, optimizer in self._optimizers().items():
            more, optimizers[name] = flatten_optimizer(optimizer, name)
            tensors |= more
        facts = {
            "cursor": asdict(self.cursor),
            "precision": self.precision,
            "history": self.history,
            "sums": self.sums,
            "best_round": self.best_round,
            "stopped": self.stopped,
            "optimizers": optimizers,
            "scheduler": None if self.scheduler is None else plain(self.scheduler.state_dict()),
        }
        return tensors, facts

    def load(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """The inverse of `dump`."""
        self.load_networks(tensors)
        for name, optimizer in self._optimizers().items():
            restore_optimizer(optimizer, name, tensors, facts["optimizers"][name])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(facts["scheduler"])
        device = next((p.device for p in self.f.parameters()), torch.device("cpu"))
        self.cursor = Cursor(**facts["cursor"])
        self.precision, self.history, self.sums = facts["precision"], facts["history"], facts["sums"]
        self.best_round, self.stopped = facts["best_round"], facts["stopped"]
        self.best = _under("best.", tensors, device)
        self.classifier_head = _under("classifier.", tensors, device)
        self.noise, self.cuda_noise = tensors.get("extra.noise"), tensors.get("extra.cuda_noise")
        if "extra.reference" in tensors:
            self.reference = tensors["extra.reference"].to(device)


def _under(prefix: str, tensors: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {key[len(prefix) :]: value.to(device) for key, value in tensors.items() if key.startswith(prefix)}


def plain(state: dict[str, Any]) -> dict[str, Any]:
    """The entries of a scheduler's state that JSON can hold; functions are made anew from its factory."""
    return {k: v for k, v in state.items() if isinstance(v, int | float | str | bool | list | type(None))}
