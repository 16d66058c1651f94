"""Algorithm 2 of the paper: a weight model g and a predictor f, trained in alternation by mini-batches."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from covshift._checks import check_choice, check_count, check_number, no_target, unwrap_target
from covshift.exceptions import AllWeightsZeroError
from covshift.nn import steps
from covshift.nn.checkpoint import describe, read_state, refuse_difference, write_state
from covshift.nn.door import check_f, check_g, check_labels, first_rows, resolve_device, resolve_precision, seed_of
from covshift.nn.losses import RowLoss, resolve_loss
from covshift.nn.networks import split_frozen
from covshift.nn.objective import g_objective, weighted_loss
from covshift.nn.pretraining import OptimizerFactory, Pretraining, resolve_pretraining
from covshift.nn.progress import Progress
from covshift.nn.rows import LoaderRows, RowSet, TensorRows, as_rows, as_tensor
from covshift.nn.seeds import derive, epoch_order, private_noise, set_noise
from covshift.nn.state import PHASES, RunState
from covshift.nn.validation import EarlyStopping
from covshift.nn.weights import OUTPUTS, Mode, g_value, plan_rounds, resolve_mode, to_weight

__all__ = ["OneStepTrainer"]

SchedulerFactory = Callable[[torch.optim.Optimizer], Any]


class OneStepTrainer:
    """min over f and g of (mean_s l(f) g)^2 + m^2 (mean_s g^2 - 2 mean_t g), in alternation (Algorithm 2).

    A round is `epochs_g` epochs of g on paired mini-batches of source and target (f fixed, its losses l computed
    once), then `epochs_f` epochs of f on sum_j w_j l_j with w = max(g, 0) normalised in each mini-batch.

    The mini-batch's (mean l g)^2 is too large by Var(l g) / B on average: a smaller `batch_size` punishes weights on
    uneven losses a little more than the bound does. Networks handed in are copied; `f_` and `g_` are trained.

    Parameters
    ----------
    f, g : nn.Module
        Any two networks; g ends in one number a row and may be None where the weights need no network.
    loss : "cross_entropy", "squared", "absolute", "huber", "tukey" or a function (output, y) -> one loss a row.
    weights : "one-step"; "uniform" (ERM); "ulsif" (with `flattening`: EIWERM); "rulsif" (RIWERM); "classifier"
        (p / (1-p) of the pretrained g); or a function of the rows. Two-step methods train g before f.
    flattening : exponent of the weights. relative_alpha : a of the relative ratio (None: .5 for "rulsif", else 0).
    loss_bound : m; inf leaves f's losses out of g's objective (the control "without the loss term").
    output_g, start_g : how g's value comes from the network ("linear", "softplus", "exp", "relative", bounded by
        1 / `bound_alpha`), and whether it starts as the pretrained classifier's "logit" or "afresh".
    rounds, epochs_g, epochs_f, batch_size : the schedule; the defaults are the paper's.
    optimizer_f, optimizer_g : functions of the parameters; None: Adam at 1e-3, SGD at 1e-4.
    scheduler_f : "halving" (every 4 rounds), None, or a function of the optimiser; stepped once an epoch of f.
    pretrain_g : bool, epochs, or `Pretraining`. freeze_g : leading children of the nn.Sequential g that stay as
        pretrained; their outputs are computed once per set of rows.
    renew_g : g epochs between two draws of `Fresh` rows (None: once a round).
    clip_grad : largest gradient norm, or None. early_stopping : None or `EarlyStopping`.
    precision : "auto", "float32" or "bf16"; bf16 falls back to float32 in the run if it moves the loss of f.
    checkpoint : folder to write to and go on from; `checkpoint_every` seconds at most are lost.

    Examples
    --------
    >>> import torch
    >>> from covshift.nn import OneStepTrainer, make_mlp
    >>> draw = torch.Generator().manual_seed(0)
    >>> X, X_target = torch.randn(200, 2, generator=draw), torch.randn(100, 2, generator=draw) + 1
    >>> y = (X.sum(1) > 0).long()
    >>> trainer = OneStepTrainer(make_mlp(2, 2), make_mlp(2, 1), rounds=2, epochs_f=2, random_state=0)
    >>> trainer.fit((X, y), X_target).predict(X_target).shape
    torch.Size([100])
    """

    mode_: Mode
    saved_at_: float

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

    def fit(self, source: Any, X_target: Any = None) -> OneStepTrainer:
        """Train on labelled source data, (X, y) or (X, y, sample_weight), and unlabelled target rows.

        Goes on from the checkpoint where there is one. Without `X_target` every weight is one.
        """
        self._check_parameters()
        self.device_ = resolve_device(self.device)
        self.seed_ = seed_of(self.random_state)
        X_target = unwrap_target(X_target)
        if X_target is None and self.mode_.uses_g:
            no_target(self)
            self.mode_ = resolve_mode("uniform")
        self._open_rows(source, X_target)
        self._open_networks()
        with private_noise(self.device_):
            self._resume()
            self._train()
        self.settings_ = self._settings()
        # The rows are the user's; a trained model that is kept or pickled does not hold them.
        del self.source_, self.target_, self.held_out_
        return self

    def _check_parameters(self) -> None:
        self.mode_ = resolve_mode(self.weights)
        check_choice("output_g", self.output_g, OUTPUTS)
        check_choice("start_g", self.start_g, ("logit", "afresh"))
        for name, low in [("rounds", 1), ("epochs_g", 0), ("epochs_f", 0), ("batch_size", 1), ("freeze_g", 0)]:
            check_count(name, getattr(self, name), low)
        check_number("flattening", self.flattening, 0.0, 1.0)
        check_number("loss_bound", self.loss_bound, 0.0, math.inf, open_low=True)
        check_number("bound_alpha", self.bound_alpha, 0.0, 1.0, open_low=True)
        alpha = self.mode_.relative_alpha if self.relative_alpha is None else self.relative_alpha
        self.relative_alpha_ = check_number("relative_alpha", alpha, 0.0, 1.0)
        self.pretraining_ = resolve_pretraining(self.pretrain_g)
        if self.mode_.uses_g and self.g is None:
            raise ValueError(f"weights={self.weights!r} needs a network g; pass OneStepTrainer(f, g).")
        if self.mode_.name == "classifier" and self.pretraining_ is None:
            raise ValueError("weights='classifier' are those of the pretrained g; pretrain_g must not be off.")
        if self.mode_.trains_g and self.start_g == "afresh" and self.freeze_g == 0 and self.pretraining_:
            raise ValueError("start_g='afresh' with freeze_g=0 throws the pretraining away; pass pretrain_g=False.")

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

    # ------------------------------------------------------------------ the loop

    def _train(self) -> None:
        plan = plan_rounds(self.mode_, self.rounds, self.epochs_g, self.epochs_f)
        progress = Progress(self.verbose, self.rounds, self.run_.cursor.round)
        self._pretrain()
        for t in range(self.run_.cursor.round, self.rounds):
            if self.run_.stopped:
                break
            started = time.perf_counter()
            self._train_g(t, plan[t].epochs_g)
            self._train_f(t, plan[t].epochs_f)
            self._close_round(t, started, progress)
        if self.run_.best:
            self.run_.load_networks(self.run_.best)
        self.history_ = self.run_.history
        self.n_iter_ = len(self.history_)
        self.precision_ = self.run_.precision

    def _pretrain(self) -> None:
        """g as a classifier of source (0) against target (1); then its head may start afresh."""
        if self.g_ is None or self.pretraining_ is None:
            return
        for epoch, first in self.run_.cursor.epochs_left("pretrain", 0, self.pretraining_.epochs):
            self._begin_epoch("pretrain", 0, epoch, first)
            self.g_.train()
            pairs = self._pairs("pretrain", epoch, self._prepare_g("pretrain", epoch, with_losses=False))
            for step, (source, target) in enumerate(islice(pairs, first, None), first):
                self.pretrain_step(source, target)
                self._tick("pretrain", 0, epoch, step + 1)
            self._tick("pretrain", 0, epoch + 1, 0)
        if self.held_out_ is not None and self.run_.reference is None:
            self.run_.reference = g_value(steps.apply(self.g_, self.held_out_.X).reshape(-1), "exp")
        at_start = self.run_.cursor.round == 0 and self.run_.cursor.phase == "pretrain"
        if at_start and self.start_g == "afresh" and self.mode_.trains_g and self.g is not None:
            self.head_.load_state_dict(split_frozen(self.g, self.freeze_g)[1].state_dict())

    def _train_g(self, t: int, count: int) -> None:
        """Lines 5-10. f is fixed: rows, frozen features and f's losses are computed once a draw of the rows."""
        if self.g_ is None:
            return
        drawn, prepared = -1, None
        for epoch, first in self.run_.cursor.epochs_left("g", t, count):
            number = t * self.epochs_g + epoch
            draw = number // (self.renew_g or max(self.epochs_g, 1))
            self._begin_epoch("g", t, epoch, first)
            if prepared is None or draw != drawn:
                drawn, prepared = draw, self._prepare_g("g", draw, with_losses=self.mode_.uses_losses)
            self.head_.train()
            for step, (source, target) in enumerate(islice(self._pairs("g", number, prepared), first, None), first):
                self.g_step(source, target, t, step)
                self._tick("g", t, epoch, step + 1)
            self._tick("g", t, epoch + 1, 0)

    def _train_f(self, t: int, count: int) -> None:
        """Lines 11-18, with the weights of all rows computed once where the rows are in memory."""
        rows = None
        for epoch, first in self.run_.cursor.epochs_left("f", t, count):
            self._begin_epoch("f", t, epoch, first)
            if isinstance(self.source_, TensorRows) and (rows is None or not self.source_.still):
                rows = self._draw(self.source_, "rows_f", t * self.epochs_f + epoch)
                rows = rows.with_frequencies(self.weigh(rows))
                self._check_precision(rows)
            self.f_.train()
            for step, batch in enumerate(
                islice(self._f_batches(rows, t * self.epochs_f + epoch), first, None), first
            ):
                self.f_step(batch, t, step)
                self._tick("f", t, epoch, step + 1)
            if self.run_.sums["w"] == 0.0:
                raise AllWeightsZeroError(
                    f"round {t}: g gives weight zero to every source row. Lower optimizer_g's rate, pretrain longer, "
                    "or use an output_g that cannot become negative ('softplus', 'exp', 'relative')."
                )
            if self.run_.scheduler is not None:
                with warnings.catch_warnings():
                    # A run resumed at an epoch's end has made its steps before; torch cannot know.
                    warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step")
                    self.run_.scheduler.step()
            self._tick("f", t, epoch + 1, 0)

    # ------------------------------------------------------------------ rows

    def _draw(self, rows: TensorRows, stream: str, number: int) -> RowSet:
        return rows.draw(derive(self.seed_, stream, number, device=self.device_))

    def _prepare_g(self, phase: str, draw: int, with_losses: bool) -> tuple[Any, Any]:
        """(source, target) of g: features in place of X and f's losses in place of y; a loader stays what it is."""
        assert self.target_ is not None
        source: Any = self.source_
        target: Any = self.target_
        if isinstance(source, TensorRows):
            source = self._for_g(self._draw(source, f"rows_{phase}", draw), phase, with_losses)
        if isinstance(target, TensorRows):
            target = self._for_g(self._draw(target, f"rows_{phase}_target", draw), phase, False)
        return source, target

    def _for_g(self, rows: RowSet, phase: str, with_losses: bool) -> RowSet:
        l = self.row_losses(rows) if with_losses else None
        if phase == "pretrain" or self.freeze_g == 0:
            return RowSet(rows.X, l, rows.s)
        return RowSet(steps.apply(self.features_, rows.X), l, rows.s)

    def _pairs(self, phase: str, epoch: int, prepared: tuple[Any, Any]) -> Iterator[tuple[RowSet, RowSet]]:
        """One epoch of source mini-batches, each with a target mini-batch (the target starts again when it ends)."""
        source, target = prepared
        order = f"order_{phase}"
        with_losses = phase == "g" and self.mode_.uses_losses
        if isinstance(source, LoaderRows):
            loader = source.batches(derive(self.seed_, order, epoch), labelled=True)
            firsts: Iterator[RowSet] = (self._for_g(batch, phase, with_losses) for batch in loader)
        else:
            firsts = steps.ordered(source, epoch_order(len(source), self.seed_, order, epoch), self.batch_size)
        if isinstance(target, LoaderRows):
            endless = target.endless(derive(self.seed_, f"{order}_target", epoch), labelled=False)
            seconds: Iterator[RowSet] = (self._for_g(batch, phase, False) for batch in endless)
        else:
            seconds = steps.endless(target, self.seed_, f"{order}_target", epoch, self.batch_size)
        return zip(firsts, seconds, strict=False)

    def _f_batches(self, rows: RowSet | None, number: int) -> Iterator[RowSet]:
        if rows is not None:
            return steps.ordered(rows, epoch_order(len(rows), self.seed_, "order_f", number), self.batch_size)
        assert isinstance(self.source_, LoaderRows)
        loader = self.source_.batches(derive(self.seed_, "order_f", number), labelled=True)
        return (self._checked(batch).with_frequencies(self.weigh(batch)) for batch in loader)

    def _checked(self, batch: RowSet) -> RowSet:
        if self.loss_.classification and batch.y is not None:
            check_labels(batch.y, self.n_outputs_)
        return batch

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

    # ------------------------------------------------------------------ the steps, to be overridden one by one

    def pretrain_step(self, source: RowSet, target: RowSet) -> None:
        """One step of g as a classifier of source against target."""
        assert self.g_ is not None and self.run_.opt_pretrain is not None
        value = steps.pretrain_value(self.g_, source, target)
        steps.descend(self.run_.opt_pretrain, value, self.clip_grad)

    def g_step(self, source: RowSet, target: RowSet, t: int, step: int) -> None:
        """Line 8: one step of g on J of a pair of mini-batches."""
        assert self.run_.opt_g is not None
        o_source, o_target = steps.paired_outputs(self.head_, source, target)
        g_source = g_value(o_source, self.output_g, self.bound_alpha)
        g_target = g_value(o_target, self.output_g, self.bound_alpha)
        J, risk, ratio = g_objective(source.y, g_source, g_target, self.loss_bound, self.relative_alpha_, source.s)
        value = float(J.detach())
        steps.require_finite(value, "g's objective", t, step, "optimizer_g's rate")
        steps.descend(self.run_.opt_g, J, self.clip_grad)
        record = {"objective": value, "risk": float(risk.detach()), "ratio": float(ratio.detach()), "steps_g": 1.0}
        steps.add(self.run_.sums, record)

    def f_step(self, batch: RowSet, t: int, step: int) -> None:
        """Lines 13-17: one step of f; `batch.s` holds weights times frequencies and is normalised here."""
        sums, w = self.run_.sums, batch.s
        assert w is not None and batch.y is not None
        total = float(w.sum())
        steps.add(sums, {"w": total, "w2": float((w**2).sum()), "rows": float(len(w))})
        if total <= 0.0:
            sums["skipped"] += 1
            return
        with torch.autocast(self.device_.type, torch.bfloat16, enabled=self.run_.precision == "bf16"):
            output = self.f_(batch.X)
        L = weighted_loss(self.loss_(output, batch.y), w)
        value = float(L.detach())
        steps.require_finite(value, "f's loss", t, step, "optimizer_f's rate (or pass clip_grad)")
        steps.descend(self.run_.opt_f, L, self.clip_grad)
        steps.add(sums, {"loss": value, "steps_f": 1.0})

    # ------------------------------------------------------------------ records, checkpoints

    def _check_precision(self, rows: RowSet) -> None:
        """bfloat16 stays only while it leaves f's losses where float32 puts them (within 1 %)."""
        if self.run_.precision != "bf16":
            return
        difference = steps.precision_gap(self.f_, self.loss_, rows[:1024], self.device_)
        if difference > 0.01:
            self.run_.precision = "float32"
            warnings.warn(
                f"bfloat16 moves f's mean loss by {difference:.1%}; the run goes on in float32.", stacklevel=4
            )

    def _close_round(self, t: int, started: float, progress: Progress) -> None:
        run, sums = self.run_, self.run_.sums
        record = steps.round_record(
            t, sums, self.epochs_f, time.perf_counter() - started, run.opt_f.param_groups[0]["lr"]
        )
        if self.held_out_ is not None and self.early_stopping is not None:
            record["validation"] = self._validate()
            best = run.history[run.best_round]["validation"] if run.best_round >= 0 else math.inf
            if record["validation"] < best:
                run.keep_best(t)
            run.stopped = t - run.best_round >= self.early_stopping.patience
        run.history.append(record)
        run.clear_sums()
        progress.round(record)
        self._tick("pretrain", t + 1, 0, 0, force=True)

    def _validate(self) -> float:
        assert self.held_out_ is not None
        held_out = self.held_out_
        if self.run_.reference is None:
            self.run_.reference = self.weigh(held_out)
        w = self.run_.reference if held_out.s is None else self.run_.reference * held_out.s
        return float((w * self.row_losses(held_out)).sum() / w.sum())

    def _begin_epoch(self, phase: str, t: int, epoch: int, first: int) -> None:
        if first and self.run_.noise is not None:
            steps.put_noise(self.run_, self.device_)
            return
        set_noise(self.seed_, PHASES.index(phase), t, epoch, device=self.device_)

    def _tick(self, phase: str, t: int, epoch: int, step: int, force: bool = False) -> None:
        """Between two steps: note the place and, when it is time, write the checkpoint."""
        cursor = self.run_.cursor
        cursor.round, cursor.phase, cursor.epoch, cursor.step = t, phase, epoch, step
        if self.checkpoint is None:
            return
        now = time.monotonic()
        if force or now - self.saved_at_ >= self.checkpoint_every:
            steps.take_noise(self.run_, self.device_)
            tensors, facts = self.run_.dump()
            write_state(self.checkpoint, tensors, {"settings": self._settings(), **facts})
            self.saved_at_ = now

    def _settings(self) -> dict[str, Any]:
        names = [
            "flattening", "output_g", "bound_alpha", "start_g", "rounds", "epochs_g", "epochs_f",
            "batch_size", "freeze_g", "renew_g", "clip_grad",
        ]  # fmt: skip
        rows = [side.n if isinstance(side, TensorRows) else None for side in (self.source_, self.target_)]
        return {
            **{name: getattr(self, name) for name in names},
            "loss": self.loss_.name, "weights": self.mode_.name, "loss_bound": repr(self.loss_bound),
            "relative_alpha": self.relative_alpha_, "pretrain_epochs": getattr(self.pretraining_, "epochs", 0),
            "seed": self.seed_, "rows": rows, "f": describe(self.f_), "g": describe(self.g_),
            "torch": torch.__version__.split("+")[0],
        }  # fmt: skip

    def _resume(self) -> None:
        self.saved_at_ = time.monotonic()
        if self.checkpoint is None:
            return
        found = read_state(self.checkpoint)
        if found is None:
            return
        tensors, facts = found
        refuse_difference(facts["settings"], self._settings(), self.checkpoint)
        self.run_.load(tensors, facts)

    def save(self, folder: str | Path) -> None:
        """The trained networks as safetensors and the settings as JSON."""
        write_state(folder, self.run_.network_tensors(), {"settings": self.settings_, "history": self.history_})

    # ------------------------------------------------------------------ prediction

    def predict_output(self, X: Any) -> Tensor:
        """f's raw outputs on rows."""
        return steps.apply(self.f_, RowSet(as_tensor(X)).to(self.device_).X).float()

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
        w = self.weigh(RowSet(as_tensor(X)).to(self.device_)).detach()
        return w if isinstance(X, Tensor) else w.cpu().numpy()


def _own(network: nn.Module, probe: RowSet, device: torch.device) -> nn.Module:
    """A copy on the device, in the rows' number type and memory layout, so that the user's network stays as it is."""
    own = copy.deepcopy(network).to(device)
    if probe.X.ndim == 4:
        for parameter in own.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.to(memory_format=torch.channels_last)
    return own


def _adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=1e-3, fused=True)


def _sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-4)
