"""What the trainer is beside its loop: parameters, networks, checkpoints, losses and weights of rows, predictions."""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from covshift._checks import check_choice, check_count, check_number
from covshift.nn import steps
from covshift.nn.checkpoint import (
    MODEL,
    describe,
    describe_optimizer,
    digest,
    read_state,
    refuse_difference,
    write_state,
)
from covshift.nn.door import check_f, check_g, first_rows, resolve_device, resolve_precision
from covshift.nn.losses import RowLoss, resolve_loss
from covshift.nn.networks import split_frozen
from covshift.nn.pretraining import OptimizerFactory, Pretraining, resolve_pretraining
from covshift.nn.rows import LoaderRows, RowSet, TensorRows, as_rows, as_tensor
from covshift.nn.state import RunState, plain
from covshift.nn.validation import EarlyStopping
from covshift.nn.weights import OUTPUTS, Mode, g_value, resolve_mode, to_weight

__all__ = ["TrainerBase"]

SchedulerFactory = Callable[[torch.optim.Optimizer], Any]


class TrainerBase:
    """Algorithm 2 without its loop; `OneStepTrainer` documents the parameters."""

    device_: torch.device
    history_: list[dict[str, Any]]
    mode_: Mode
    saved_at_: float
    seed_: int
    settings_: dict[str, Any]

    def __init__(
        self,
        f: nn.Module,
        g: nn.Module | None = None,
        *,
        loss: str | RowLoss = "cross_entropy",
        weights: str | Callable[[Tensor], Tensor] = "one-step",
        flattening: float = 1.0,
        relative_alpha: float | None = None,
        loss_bound: float = 1.0,
        output_g: str = "linear",
        bound_alpha: float = 0.5,
        start_g: str = "logit",
        rounds: int = 20,
        epochs_g: int = 5,
        epochs_f: int = 10,
        batch_size: int = 128,
        optimizer_f: OptimizerFactory | None = None,
        optimizer_g: OptimizerFactory | None = None,
        scheduler_f: str | SchedulerFactory | None = "halving",
        pretrain_g: bool | int | Pretraining = True,
        freeze_g: int = 0,
        renew_g: int | None = None,
        clip_grad: float | None = None,
        early_stopping: EarlyStopping | None = None,
        device: str | torch.device = "auto",
        precision: str = "auto",
        checkpoint: str | Path | None = None,
        checkpoint_every: float = 30.0,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.f = f
        self.g = g
        self.loss = loss
        self.weights = weights
        self.flattening = flattening
        self.relative_alpha = relative_alpha
        self.loss_bound = loss_bound
        self.output_g = output_g
        self.bound_alpha = bound_alpha
        self.start_g = start_g
        self.rounds = rounds
        self.epochs_g = epochs_g
        self.epochs_f = epochs_f
        self.batch_size = batch_size
        self.optimizer_f = optimizer_f
        self.optimizer_g = optimizer_g
        self.scheduler_f = scheduler_f
        self.pretrain_g = pretrain_g
        self.freeze_g = freeze_g
        self.renew_g = renew_g
        self.clip_grad = clip_grad
        self.early_stopping = early_stopping
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ the door

    def _check_parameters(self) -> None:
        self.mode_ = resolve_mode(self.weights)
        check_choice("output_g", self.output_g, OUTPUTS)
        check_choice("start_g", self.start_g, ("logit", "afresh"))
        for name, low in [("rounds", 1), ("epochs_g", 0), ("epochs_f", 0), ("batch_size", 1), ("freeze_g", 0)]:
            check_count(name, getattr(self, name), low)
        check_number("flattening", self.flattening, 0.0, 1.0)
        check_number("loss_bound", self.loss_bound, 0.0, math.inf, open_low=True)
        check_number("bound_alpha", self.bound_alpha, 0.0, 1.0, open_low=True)
        if self.clip_grad is not None:
            check_number("clip_grad", self.clip_grad, 0.0, math.inf, open_low=True)
        if self.renew_g is not None:
            check_count("renew_g", self.renew_g, 1)
        alpha = self.mode_.relative_alpha if self.relative_alpha is None else self.relative_alpha
        self.relative_alpha_ = check_number("relative_alpha", alpha, 0.0, 1.0)
        self.pretraining_ = resolve_pretraining(self.pretrain_g)
        if self.mode_.uses_g and self.g is None:
            raise ValueError(f"weights={self.weights!r} needs a network g; pass OneStepTrainer(f, g).")
        if self.mode_.name == "classifier" and self.pretraining_ is None:
            raise ValueError("weights='classifier' are those of the pretrained g; pretrain_g must not be off.")
        if self.mode_.trains_g and self.start_g == "afresh" and self.freeze_g == 0 and self.pretraining_:
            raise ValueError("start_g='afresh' with freeze_g=0 throws the pretraining away; pass pretrain_g=False.")
        self._check_renewal()

    def _check_renewal(self) -> None:
        if self.pretraining_ is None or not self.pretraining_.renew:
            return
        check_count("Pretraining.renew", self.pretraining_.renew, 0)
        if self.mode_.trains_g and not self.mode_.alternates:
            raise ValueError(
                f"Pretraining(renew={self.pretraining_.renew}) starts g again in every round, but weights="
                f"{self.weights!r} trains g once, before f; use weights='one-step' or 'classifier', or renew=0."
            )
        if self.mode_.trains_g and self.start_g == "afresh":
            raise ValueError("Pretraining(renew=...) starts g's head from the classifier; use start_g='logit'.")

    def _open_rows(self, source: Any, X_target: Any) -> None:
        batch_size, device = self.batch_size, self.device_
        if isinstance(source, list) and len(source) in (2, 3) and hasattr(source[0], "shape"):
            source = tuple(source)
        self.source_ = as_rows(source, labelled=True, batch_size=batch_size, device=device, name="source")
        self.target_: TensorRows | LoaderRows | None = None
        if self.mode_.uses_g:
            self.target_ = as_rows(X_target, labelled=False, batch_size=batch_size, device=device, name="target")
        self.held_out_: RowSet | None = None
        if self.early_stopping is not None:
            self.source_, self.held_out_ = self.early_stopping.split(self.source_, self.seed_, device)

    def _open_networks(self) -> None:
        probe = first_rows(self.source_, True, self.device_)
        self.loss_ = resolve_loss(self.loss, probe.y)
        self.f_ = _own(self.f, probe, self.device_)
        self.n_outputs_ = check_f(self.f_, self.loss_, probe, self._all_labels())
        opt_f = (self.optimizer_f or _adam)(self.f_.parameters())
        self.run_ = RunState(self.f_, opt_f, self._make_scheduler(opt_f))
        self.run_.precision = resolve_precision(self.precision, self.device_)
        self.g_: nn.Module | None = None
        if self.mode_.uses_g and self.g is not None and self.target_ is not None:
            self.g_ = _own(self.g, probe, self.device_)
            check_g(self.g_, probe, first_rows(self.target_, False, self.device_))
            self.features_, self.head_ = split_frozen(self.g_, self.freeze_g)
            self.run_.g = self.g_
            self.run_.opt_g = (self.optimizer_g or _sgd)(self.head_.parameters())
            if self.pretraining_ is not None:
                self.run_.opt_pretrain = self.pretraining_.make(self.g_.parameters())

    def _all_labels(self) -> Tensor | None:
        return self.source_.draw(None).y if isinstance(self.source_, TensorRows) and self.source_.still else None

    def _make_scheduler(self, optimizer: torch.optim.Optimizer) -> Any:
        if self.scheduler_f is None or callable(self.scheduler_f):
            return self.scheduler_f(optimizer) if self.scheduler_f else None
        check_choice("scheduler_f", self.scheduler_f, ("halving",))
        return torch.optim.lr_scheduler.StepLR(optimizer, step_size=max(4 * self.epochs_f, 1), gamma=0.5)

    # ------------------------------------------------------------------ losses and weights of rows

    def row_losses(self, rows: RowSet) -> Tensor:
        """f's loss on each row, f fixed."""
        assert rows.y is not None
        return self.loss_(steps.apply(self.f_, rows.X), rows.y)

    def weigh(self, rows: RowSet) -> Tensor:
        """w_i = max(g(x_i), 0)^gamma, one a row."""
        if callable(self.weights) and self.mode_.name == "callable":
            return steps.check_row_weights(self.weights(rows.X), len(rows))
        if self.g_ is None:
            return torch.ones(len(rows), device=rows.X.device)
        output = "exp" if self.mode_.name == "classifier" else self.output_g
        o = steps.apply(self.g_, rows.X).reshape(-1)
        return to_weight(g_value(o, output, self.bound_alpha), self.flattening)

    # ------------------------------------------------------------------ checkpoints

    def _settings(self) -> dict[str, Any]:
        """What must agree for a run to be continued, as JSON; of functions only the names are known."""
        names = [
            "flattening", "output_g", "bound_alpha", "start_g", "rounds", "epochs_g", "epochs_f",
            "batch_size", "freeze_g", "renew_g", "clip_grad", "precision",
        ]  # fmt: skip
        sides = (self.source_, self.target_)
        stopping, scheduler = self.early_stopping, self.run_.scheduler
        settings = {
            **{name: getattr(self, name) for name in names},
            "loss": self.loss_.name, "weights": self.mode_.name, "loss_bound": repr(self.loss_bound),
            "relative_alpha": self.relative_alpha_, "pretrain_epochs": getattr(self.pretraining_, "epochs", 0),
            "renew_epochs": getattr(self.pretraining_, "renew", 0),
            "early_stopping": None if stopping is None else [stopping.patience, stopping.fraction],
            "optimizers": [describe_optimizer(o) for o in (self.run_.opt_f, self.run_.opt_g, self.run_.opt_pretrain)],
            "scheduler": None if scheduler is None else [type(scheduler).__name__, plain(scheduler.state_dict())],
            "seed": self.seed_, "rows": [side.n if isinstance(side, TensorRows) else None for side in sides],
            "data": None if self.checkpoint is None else [_digest_of(side) for side in (*sides, self.held_out_)],
            "f": describe(self.f_), "g": describe(self.g_), "torch": torch.__version__.split("+")[0],
        }  # fmt: skip
        return json.loads(json.dumps(settings, default=lambda number: number.item()))

    def _resume(self) -> None:
        self.saved_at_ = time.monotonic()
        self.settings_ = self._settings()
        if self.checkpoint is None:
            return
        found = read_state(self.checkpoint)
        if found is None:
            return
        tensors, facts = found
        refuse_difference(facts["settings"], self.settings_, self.checkpoint)
        self.run_.load(tensors, facts)

    def save(self, folder: str | Path) -> None:
        """The trained networks as safetensors and the settings as JSON, for `load`."""
        facts = {"settings": self.settings_, "history": self.history_, "classification": self.loss_.classification}
        write_state(folder, self.run_.network_tensors(), facts, MODEL)

    def load(self, folder: str | Path) -> Self:
        """Become the trained model that `save` wrote; f and g must be networks of the same architecture."""
        found = read_state(folder, MODEL)
        if found is None:
            raise FileNotFoundError(f"there is no saved model in {str(folder)!r}.")
        tensors, facts = found
        self._check_parameters()
        self.device_ = resolve_device(self.device)
        self.settings_, self.history_ = facts["settings"], facts["history"]
        self.n_iter_ = len(self.history_)
        if self.settings_["weights"] == "uniform":
            self.mode_ = resolve_mode("uniform")
        self.loss_ = replace(resolve_loss(self.loss), classification=facts["classification"])
        dtype = next((v.dtype for v in tensors.values() if v.is_floating_point()), None)
        self.f_ = copy.deepcopy(self.f).to(self.device_, dtype)
        self.g_ = (
            copy.deepcopy(self.g).to(self.device_, dtype) if self.settings_["g"] and self.g is not None else None
        )
        here = {"f": describe(self.f_), "g": describe(self.g_)}
        refuse_difference({key: self.settings_[key] for key in here}, here, folder)
        self.run_ = RunState(self.f_, (self.optimizer_f or _adam)(self.f_.parameters()), g=self.g_)
        self.run_.load_networks(tensors)
        return self

    # ------------------------------------------------------------------ prediction

    def _rows_for(self, network: nn.Module, X: Any) -> RowSet:
        """Rows on the device and in the network's number type."""
        rows = as_tensor(X)
        dtype = _number_type(network)
        if dtype is not None and rows.is_floating_point():
            rows = rows.to(dtype)
        return RowSet(rows).to(self.device_)

    def predict_output(self, X: Any) -> Tensor:
        """f's raw outputs on rows."""
        return steps.apply(self.f_, self._rows_for(self.f_, X).X).float()

    def predict(self, X: Any) -> np.ndarray | Tensor:
        """Class numbers for classification losses, values otherwise; arrays for arrays, tensors for tensors."""
        output = self.predict_output(X)
        if self.loss_.classification:
            output = output.argmax(dim=1)
        elif output.ndim == 2 and output.shape[1] == 1:
            output = output.squeeze(1)
        return output if isinstance(X, Tensor) else output.cpu().numpy()

    def predict_weights(self, X: Any) -> np.ndarray | Tensor:
        """The weights >= 0 that f's training uses, for any rows."""
        w = self.weigh(self._rows_for(self.f_ if self.g_ is None else self.g_, X)).detach()
        return w if isinstance(X, Tensor) else w.cpu().numpy()


def _digest_of(rows: TensorRows | LoaderRows | RowSet | None) -> str | None:
    """Checksum of rows that stand still."""
    if isinstance(rows, TensorRows) and rows.still:
        rows = rows.draw(None)
    return digest([rows.X, rows.y, rows.s]) if isinstance(rows, RowSet) else None


def _number_type(network: nn.Module) -> torch.dtype | None:
    return next((p.dtype for p in network.parameters() if p.is_floating_point()), None)


def _own(network: nn.Module, probe: RowSet, device: torch.device) -> nn.Module:
    """A copy on the device, in the rows' number type and memory layout, so that the user's network stays as it is."""
    own = copy.deepcopy(network).to(device, probe.X.dtype if probe.X.is_floating_point() else None)
    if probe.X.ndim == 4:
        for parameter in own.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.to(memory_format=torch.channels_last)
    return own


def _adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=1e-3, fused=True)


def _sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-4)
