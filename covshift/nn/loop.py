"""Algorithm 2 of the paper: a weight model g and a predictor f, trained in alternation by mini-batches."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch

from covshift._checks import no_target, unwrap_target
from covshift.exceptions import AllWeightsZeroError
from covshift.nn import steps
from covshift.nn.base import TrainerBase
from covshift.nn.checkpoint import run_seed, write_state
from covshift.nn.door import check_labels, resolve_device
from covshift.nn.networks import split_frozen
from covshift.nn.objective import g_objective, weighted_loss
from covshift.nn.progress import Progress
from covshift.nn.rows import LoaderRows, RowSet, TensorRows
from covshift.nn.seeds import derive, epoch_order, private_noise, set_noise
from covshift.nn.state import PHASES
from covshift.nn.weights import g_value, plan_rounds, resolve_mode

__all__ = ["OneStepTrainer"]


class OneStepTrainer(TrainerBase):
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

    # ------------------------------------------------------------------ the door

    def fit(self, source: Any, X_target: Any = None) -> OneStepTrainer:
        """Train on labelled source data, (X, y) or (X, y, sample_weight), and unlabelled target rows.

        Goes on from the checkpoint where there is one. Without `X_target` every weight is one.
        """
        self._check_parameters()
        self.device_ = resolve_device(self.device)
        self.seed_ = run_seed(self.random_state, self.checkpoint)
        X_target = unwrap_target(X_target)
        if X_target is None and self.mode_.uses_g:
            no_target(self)
            self.mode_ = resolve_mode("uniform")
        with private_noise(self.device_):
            self._open_rows(source, X_target)
            self._open_networks()
            self._resume()
            self._train()
        # The rows are the user's; a trained model that is kept or pickled does not hold them.
        del self.source_, self.target_, self.held_out_
        return self

    # ------------------------------------------------------------------ the loop

    def _train(self) -> None:
        plan = plan_rounds(self.mode_, self.rounds, self.epochs_g, self.epochs_f)
        progress = Progress(self.verbose, self.rounds, self.run_.cursor.round)
        for t in range(self.run_.cursor.round, self.rounds):
            if self.run_.stopped:
                break
            started = time.perf_counter()
            self._pretrain(t)
            self._train_g(t, plan[t].epochs_g)
            self._train_f(t, plan[t].epochs_f)
            self._close_round(t, started, progress)
        if self.run_.best:
            self.run_.load_networks(self.run_.best)
        self.history_ = self.run_.history
        self.n_iter_ = len(self.history_)
        self.precision_ = self.run_.precision

    def _pretrain(self, t: int) -> None:
        """g as a classifier of source (0) against target (1): before the first round, and where asked before each."""
        if self.g_ is None or self.pretraining_ is None:
            return
        numbers = self.pretraining_.epochs_of_round(t)
        for epoch, first in self.run_.cursor.epochs_left("pretrain", t, len(numbers)):
            if t and not epoch and not first:
                self.head_.load_state_dict(self.run_.classifier_head)
            self._begin_epoch("pretrain", t, epoch)
            self.g_.train()
            number = numbers[epoch]
            pairs = self._pairs("pretrain", number, self._prepare_g("pretrain", number, with_losses=False))
            for step, (source, target) in enumerate(self._from(pairs, first), first):
                self.pretrain_step(source, target)
                self._tick("pretrain", t, epoch, step + 1)
            self._tick("pretrain", t, epoch + 1, 0)
        if self.run_.cursor.round == t and self.run_.cursor.phase == "pretrain":
            self._close_pretraining(t)

    def _close_pretraining(self, t: int) -> None:
        """Keep what later rounds need of the classifier; then g's head may start afresh."""
        assert self.g_ is not None and self.pretraining_ is not None
        if self.held_out_ is not None and self.run_.reference is None:
            self.run_.reference = g_value(steps.apply(self.g_, self.held_out_.X).reshape(-1), "exp")
        if self.pretraining_.renew:
            if t and self.run_.opt_g is not None:
                self.run_.opt_g.state.clear()  # a head that starts again has no momentum
            self.run_.classifier_head = {k: v.detach().clone() for k, v in self.head_.state_dict().items()}
        if t == 0 and self.start_g == "afresh" and self.mode_.trains_g and self.g is not None:
            self.head_.load_state_dict(split_frozen(self.g, self.freeze_g)[1].state_dict())

    def _train_g(self, t: int, count: int) -> None:
        """Lines 5-10. f is fixed: rows, frozen features and f's losses are computed once a draw of the rows."""
        if self.g_ is None:
            return
        drawn, prepared = -1, None
        for epoch, first in self.run_.cursor.epochs_left("g", t, count):
            number = t * self.epochs_g + epoch
            draw = number // (self.renew_g or max(self.epochs_g, 1))
            self._begin_epoch("g", t, epoch)
            if prepared is None or draw != drawn:
                drawn, prepared = draw, self._prepare_g("g", draw, with_losses=self.mode_.uses_losses)
            self.head_.train()
            for step, (source, target) in enumerate(self._from(self._pairs("g", number, prepared), first), first):
                self.g_step(source, target, t, step)
                self._tick("g", t, epoch, step + 1)
            self._tick("g", t, epoch + 1, 0)

    def _train_f(self, t: int, count: int) -> None:
        """Lines 11-18, with the weights of all rows computed once where the rows are in memory."""
        rows = None
        for epoch, first in self.run_.cursor.epochs_left("f", t, count):
            self._begin_epoch("f", t, epoch)
            if isinstance(self.source_, TensorRows) and (rows is None or not self.source_.still):
                rows = self._checked(self._draw(self.source_, "rows_f", t * self.epochs_f + epoch))
                rows = rows.with_frequencies(self.weigh(rows))
            self.f_.train()
            before = self.run_.sums["rows"]
            for step, batch in enumerate(self._from(self._f_batches(rows, t * self.epochs_f + epoch), first), first):
                if epoch == step == 0:
                    self._check_precision(batch if rows is None else rows)
                self.f_step(batch, t, step)
                self._tick("f", t, epoch, step + 1)
            if not first and self.run_.sums["rows"] == before:
                raise ValueError(f"the source gave no mini-batch in round {t}, epoch {epoch} of f.")
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
        l = self.row_losses(self._checked(rows)) if with_losses else None
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

    # ------------------------------------------------------------------ the steps, to be overridden one by one

    def pretrain_step(self, source: RowSet, target: RowSet) -> None:
        """One step of g as a classifier of source against target."""
        assert self.g_ is not None and self.run_.opt_pretrain is not None
        value = steps.pretrain_value(self.g_, source, target)
        if not math.isfinite(float(value.detach())):
            raise FloatingPointError("the pretraining's loss is not finite; lower Pretraining(lr=...).")
        steps.descend(self.run_.opt_pretrain, value, self.clip_grad)

    def g_step(self, source: RowSet, target: RowSet, t: int, step: int) -> None:
        """Line 8: one step of g on J of a pair of mini-batches."""
        assert self.run_.opt_g is not None
        o_source, o_target = steps.paired_outputs(self.head_, source, target)
        g_source = g_value(o_source, self.output_g, self.bound_alpha)
        g_target = g_value(o_target, self.output_g, self.bound_alpha)
        J, risk, ratio = g_objective(source.y, g_source, g_target, self.loss_bound, self.relative_alpha_, source.s)
        value = float(J.detach())
        steps.require_finite(value, "g's objective", t, step, "optimizer_g's rate (or scale y, or raise loss_bound)")
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
        if float(w.sum()) <= 0.0:
            raise AllWeightsZeroError("every held-out row of EarlyStopping has weight zero; hold out more rows.")
        return float((w * self.row_losses(held_out)).sum() / w.sum())

    def _begin_epoch(self, phase: str, t: int, epoch: int) -> None:
        set_noise(self.seed_, PHASES.index(phase), t, epoch, device=self.device_)

    def _from(self, batches: Iterator[Any], first: int) -> Iterator[Any]:
        """The epoch's mini-batches from number `first` on, in the very order of the run that was stopped there.

        A loader may draw its order and its rows from torch's global generator: it is opened as at the epoch's start,
        and the generator is put to where it stood only when the mini-batches that are done have passed.
        """
        for _ in islice(batches, first):
            pass
        if first:
            steps.put_noise(self.run_, self.device_)
        yield from batches

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
            write_state(self.checkpoint, tensors, {"settings": self.settings_, **facts})
            self.saved_at_ = now
