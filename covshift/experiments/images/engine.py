"""Algorithm 2 for many (level, trial, method) at once; the numbers of `OneStepTrainer`, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from covshift.experiments.images.graphs import replayable
from covshift.experiments.images.methods import Method
from covshift.experiments.images.problem import Images, evaluation_generator, importance, turned
from covshift.experiments.images.stacked import StackedAdam, StackedSGD, conv_features, head_outputs, stack, views
from covshift.nn.networks import make_network
from covshift.nn.objective import effective_sample_size, g_objective
from covshift.nn.pretraining import Pretraining, classifier_loss
from covshift.nn.seeds import derive, epoch_order
from covshift.nn.weights import g_value, to_weight

__all__ = ["Engine", "Group", "Schedule"]

_SHAPE = (1, 28, 28)
_CHUNK = 1000  # images of each group at a time where no gradient is needed


@dataclass(frozen=True)
class Group:
    """What several methods share: the level (a, b) and the trial's seed, hence images, angles and orders."""

    a: int
    b: int
    seed: int


@dataclass(frozen=True)
class Schedule:
    """The paper's: 20 rounds of 5 g epochs and 10 f epochs, batch 128, rates 1e-3 (halved every 4 rounds) for f."""

    rounds: int = 20
    epochs_g: int = 5
    epochs_f: int = 10
    pretrain_epochs: int = 20
    batch_size: int = 128
    rate_f: float = 1e-3
    rate_pretrain: float = 1e-3
    angles: str = "fresh"
    held_out: int = 0  # source images kept for the choice of g's output, never in the reported runs


class Engine:
    """R = groups x methods runs, model r = group r // M, method r % M.

    Every random draw has the generator that `OneStepTrainer` with the group's seed would use, so a run here is that
    trainer's run on `Fresh` rows, up to the order of additions.
    """

    def __init__(
        self,
        images: Images,
        groups: Sequence[Group],
        methods: Sequence[Method],
        schedule: Schedule,
        device: torch.device,
    ) -> None:
        self.groups, self.methods, self.schedule = list(groups), list(methods), schedule
        self.device = device
        self.G, self.M = len(groups), len(methods)
        self.pretraining = _pretraining(methods, schedule)
        self.R = self.G * self.M
        self.n = len(images.X) - schedule.held_out
        self.images = images.to(device)
        self.X, self.y = self.images.X[: self.n], self.images.y[: self.n]
        self.round = 0
        self._make_f()
        self._make_g()
        self._batch_buffers()

    # ------------------------------------------------------------------ networks and buffers

    def _make_f(self) -> None:
        networks = [make_network(_SHAPE, 10, group.seed, 0) for group in self.groups for _ in self.methods]
        self.flat_f, self.f = _on(self.device, *stack(networks))
        self.adam = StackedAdam(self.flat_f, self.f, self.schedule.rate_f)

    def _make_g(self) -> None:
        """One pretrained network a group (frozen features) and one head for each (group, method that has a g)."""
        networks = [make_network(_SHAPE, 1, group.seed, 1) for group in self.groups]
        self.flat_p, self.p = _on(self.device, *stack(networks))
        self.adam_p = StackedAdam(self.flat_p, self.p, self.schedule.rate_pretrain)
        self.g_methods = [j for j, m in enumerate(self.methods) if m.weights not in ("uniform", "true")]
        self.H = len(self.g_methods)
        heads = [network[1] for network in networks for _ in self.g_methods]
        if heads:
            self.flat_h, self.h = _on(self.device, *stack(heads))

    def _batch_buffers(self) -> None:
        B, G, n = self.schedule.batch_size, self.G, self.n
        self.steps = math.ceil(n / B)
        self.at = torch.zeros(1, dtype=torch.long, device=self.device)
        self.order = torch.zeros(G, self.steps, B, dtype=torch.long, device=self.device)
        self.order_target = torch.zeros_like(self.order)
        self.valid = torch.zeros(self.steps, B, device=self.device)
        self.valid.view(-1)[:n] = 1.0
        self.source = torch.zeros(G, n, 28, 28, device=self.device)
        self.target = torch.zeros(G, n, 28, 28, device=self.device)
        self.w = torch.ones(self.R, n, device=self.device)
        self.loss_sum = torch.zeros(self.R, device=self.device)

    def _orders(self, stream: str, epoch: int) -> Tensor:
        """(G, steps, B) row numbers: the epoch's permutation, filled up with row 0 (which `valid` masks)."""
        size = self.steps * self.schedule.batch_size
        seeds = [group.seed for group in self.groups]
        drawn = {seed: epoch_order(self.n, seed, stream, epoch) for seed in set(seeds)}
        rows = torch.stack([functional.pad(drawn[seed], (0, size - self.n)) for seed in seeds])
        return rows.view(self.G, self.steps, -1).to(self.device)

    def _target_orders(self, stream: str, epoch: int) -> Tensor:
        """(G, steps, B): permutation after permutation, so that every target mini-batch is full."""
        size, seeds = self.steps * self.schedule.batch_size, [group.seed for group in self.groups]
        drawn = {}
        for seed in set(seeds):
            parts = [epoch_order(self.n, seed, stream, epoch, k) for k in range(math.ceil(size / self.n))]
            drawn[seed] = torch.cat(parts)[:size]
        return torch.stack([drawn[seed] for seed in seeds]).view(self.G, self.steps, -1).to(self.device)

    def _draw(self, out: Tensor, stream: str, number: int, target: bool = False) -> Tensor:
        """Fill `out` (G, n, 28, 28) with images under new angles; returns the angles t (G, n)."""
        number = 0 if self.schedule.angles == "fixed" else number
        stream = _fixed_stream(target) if self.schedule.angles == "fixed" else stream
        angles = []
        for k, group in enumerate(self.groups):
            a, b = (group.b, group.a) if target else (group.a, group.b)
            generator = derive(group.seed, stream, number, device=self.device)
            out[k], t = turned(self.X, a, b, generator)
            angles.append(t)
        return torch.stack(angles)

    # ------------------------------------------------------------------ g

    def pretrain(self, t: int) -> None:
        """Each group's g as a classifier of source against target, before round t; heads start from it or afresh."""
        numbers = self.pretraining.epochs_of_round(t)
        if not numbers:
            return
        if not hasattr(self, "_replay_p"):
            state = [self.flat_p, *self.adam_p.state(), self.at]
            self._replay_p = replayable(self._pretrain_step, state, self.device)
        for epoch in numbers:
            self._draw(self.source, "rows_pretrain", epoch)
            self._draw(self.target, "rows_pretrain_target", epoch, target=True)
            self.order.copy_(self._orders("order_pretrain", epoch))
            self.order_target.copy_(self._target_orders("order_pretrain_target", epoch))
            self._repeat(self._replay_p)
        starts = [
            j
            for j, m in enumerate(self.g_methods)
            if self.methods[m].start_g == "logit" or not self.methods[m].trains_g
        ]
        with torch.no_grad():
            for head, pretrained in zip(self.h if self.H else [], self.p[4:], strict=False):
                head.view(self.G, self.H, *head.shape[1:])[:, starts] = pretrained[:, None]

    def _pretrain_step(self) -> None:
        index, index_target, s = self._batch()
        both = torch.cat([_rows(self.source, index), _rows(self.target, index_target)], dim=1)
        o = head_outputs(self.p[4:], conv_features(self.p[:4], both)).squeeze(2)
        B = self.schedule.batch_size
        value = classifier_loss(o[:, :B], o[:, B:], s)
        self.adam_p.step(value.sum(), torch.ones(self.G, device=self.device))

    def train_g(self, alternating: bool, t: int) -> None:
        """`epochs_g` epochs of the alternating heads, or all of the two-step heads' epochs at once."""
        chosen = [j for j, m in enumerate(self.g_methods) if self._in_phase(self.methods[m], alternating)]
        if not chosen or not self.schedule.epochs_g:
            return
        phase = _GPhase(self, chosen)
        for epoch in range(self.schedule.epochs_g * (1 if alternating else self.schedule.rounds)):
            number = t * self.schedule.epochs_g + epoch
            if number % self.schedule.epochs_g == 0:
                phase.renew(number // self.schedule.epochs_g)
            self.order.copy_(self._orders("order_g", number))
            self.order_target.copy_(self._target_orders("order_g_target", number))
            self._repeat(phase.replay)
        phase.write_back()

    def _in_phase(self, method: Method, alternating: bool) -> bool:
        return method.trains_g and method.alternates == alternating

    def features(self, X: Tensor) -> Tensor:
        """(G, n, 400) frozen features of every group's images."""
        with torch.no_grad():
            return torch.cat([conv_features(self.p[:4], part) for part in X.split(_CHUNK, dim=1)], dim=1)

    def outputs(self, X: Tensor) -> Tensor:
        """f's outputs (R, n, 10) on every group's images (G, n, 28, 28)."""
        with torch.no_grad():
            parts = [head_outputs(self.f[4:], conv_features(self.f[:4], x)) for x in X.split(_CHUNK, 1)]
            return torch.cat(parts, dim=1)

    # ------------------------------------------------------------------ f

    def train_f(self, t: int) -> None:
        """`epochs_f` epochs of every f, with new angles and new weights each epoch."""
        self.adam.rate.fill_(self.schedule.rate_f * 0.5 ** (t // 4))
        if not hasattr(self, "_replay_f"):
            state = [self.flat_f, *self.adam.state(), self.at, self.loss_sum]
            self._replay_f = replayable(self._f_step, state, self.device)
        self.loss_sum.zero_()
        for epoch in range(self.schedule.epochs_f):
            number = t * self.schedule.epochs_f + epoch
            if epoch == 0 or self.schedule.angles == "fresh":
                self.weigh(self._draw(self.source, "rows_f", number))
            self.order.copy_(self._orders("order_f", number))
            self._repeat(self._replay_f)
        self.mean_loss = self.loss_sum / (self.schedule.epochs_f * self.steps)

    def _f_step(self) -> None:
        index, _, s = self._batch()
        x, y = _rows(self.source, index), self.y[index]
        o = head_outputs(self.f[4:], conv_features(self.f[:4], x))
        y = y[:, None].expand(self.G, self.M, -1).reshape(-1)
        l = functional.cross_entropy(o.reshape(-1, 10), y, reduction="none").view(self.R, -1)
        columns = index[:, None].expand(self.G, self.M, -1).reshape(self.R, -1)
        w = self.w.gather(1, columns) * s
        total = w.sum(dim=1)
        L = (w * l).sum(dim=1) / total.clamp_min(1e-30)
        self.adam.step(L.sum(), (total > 0).to(total.dtype))
        with torch.no_grad():
            self.loss_sum += L

    def weigh(self, angles: Tensor) -> None:
        """Weights (R, n) of the source images that are drawn now, as max(g, 0)^gamma."""
        o = None
        with torch.no_grad():
            if self.H:
                Z = self.features(self.source)
                o = head_outputs(self.h, Z.repeat_interleave(self.H, dim=0)).view(self.G, self.H, -1)
            w = self.w.view(self.G, self.M, -1)
            for j, method in enumerate(self.methods):
                if method.weights == "uniform":
                    continue
                if method.weights == "true":
                    r = torch.stack([importance(t, g.a, g.b) for t, g in zip(angles, self.groups, strict=True)])
                    alpha = method.relative_alpha
                    w[:, j] = to_weight(r / (alpha * r + 1.0 - alpha), method.flattening)
                elif o is not None:
                    g = g_value(o[:, self.g_methods.index(j)], method.output_g, method.bound_alpha)
                    w[:, j] = to_weight(g, method.flattening)

    def run_round(self) -> None:
        """Pretraining and the two-step methods' g before the first round; then g and f of this round."""
        if self.H:
            self.pretrain(self.round)
        if self.round == 0:
            self.train_g(alternating=False, t=0)
        self.train_g(alternating=True, t=self.round)
        self.train_f(self.round)
        self.round += 1

    # ------------------------------------------------------------------ judgement

    def accuracy(self) -> Tensor:
        """Percent of the test images, turned by Beta(b, a), that each f classifies rightly; (R,)."""
        X = torch.empty(self.G, len(self.images.X_test), 28, 28, device=self.device)
        for k, group in enumerate(self.groups):
            X[k] = turned(self.images.X_test, group.b, group.a, evaluation_generator(group.seed, self.device))[0]
        right = self.outputs(X).argmax(dim=2) == self.images.y_test
        return 100.0 * right.float().mean(dim=1)

    def ess(self) -> Tensor:
        """Effective sample size of the last epoch's weights in percent of the source images; (R,)."""
        return 100.0 * effective_sample_size(self.w) / self.n

    # ------------------------------------------------------------------ state

    def state(self) -> list[Tensor]:
        """The tensors that decide how the run goes on after a round."""
        heads = [self.flat_h] if self.H else []
        return [self.flat_f, *self.adam.state(), self.flat_p, *self.adam_p.state(), *heads]

    def _batch(self) -> tuple[Tensor, Tensor, Tensor]:
        """(source rows, target rows, mask) of the mini-batch in hand; moves on to the next."""
        index = self.order.index_select(1, self.at).squeeze(1)
        index_target = self.order_target.index_select(1, self.at).squeeze(1)
        s = self.valid.index_select(0, self.at)
        self.at.copy_((self.at + 1) % self.steps)
        return index, index_target, s

    def _repeat(self, step: Callable[[], None]) -> None:
        self.at.zero_()
        for _ in range(self.steps):
            step()


class _GPhase:
    """Some of the heads during their epochs: cached features, fixed losses, one replayed step."""

    def __init__(self, engine: Engine, chosen: Sequence[int]) -> None:
        self.engine, self.chosen = engine, list(chosen)
        G, H, C, device = engine.G, engine.H, len(chosen), engine.device
        self.methods = [engine.methods[engine.g_methods[j]] for j in chosen]
        parts = [h.detach().view(G, H, *h.shape[1:])[:, self.chosen].reshape(G * C, *h.shape[1:]) for h in engine.h]
        self.flat = torch.cat([part.reshape(-1) for part in parts])
        self.parameters = views(self.flat, [part.shape for part in parts])
        rates = torch.tensor([m.rate_g for m in self.methods] * G, device=device)
        self.sgd = StackedSGD(self.flat, self.parameters, rates)
        self.Z = torch.zeros(G, engine.n, 400, device=device)
        self.Z_target = torch.zeros_like(self.Z)
        self.l = torch.zeros(G, C, engine.n, device=device)
        self.replay = replayable(self._step, [self.flat, engine.at], device)

    def renew(self, number: int) -> None:
        """New images for g, their frozen features and f's losses on them."""
        engine = self.engine
        engine._draw(engine.source, "rows_g", number)
        engine._draw(engine.target, "rows_g_target", number, target=True)
        self.Z.copy_(engine.features(engine.source))
        self.Z_target.copy_(engine.features(engine.target))
        if any(method.uses_losses for method in self.methods):
            l = self._losses()
            for c, j in enumerate(self.chosen):
                self.l[:, c] = l[:, engine.g_methods[j]]

    def _losses(self) -> Tensor:
        engine = self.engine
        parts = []
        for start in range(0, engine.n, _CHUNK):
            part = slice(start, start + _CHUNK)
            o = engine.outputs(engine.source[:, part])
            y = engine.y[part].repeat(engine.R)
            parts.append(functional.cross_entropy(o.reshape(-1, 10), y, reduction="none").view(engine.R, -1))
        return torch.cat(parts, dim=1).view(engine.G, engine.M, -1)

    def _step(self) -> None:
        engine, C = self.engine, len(self.chosen)
        index, index_target, s = engine._batch()
        Z = torch.cat([_rows(self.Z, index), _rows(self.Z_target, index_target)], dim=1)
        o = head_outputs(self.parameters, Z.repeat_interleave(C, dim=0)).view(engine.G, C, -1)
        columns = index[:, None].expand(engine.G, C, -1)
        l = self.l.gather(2, columns)
        B = engine.schedule.batch_size
        J = torch.zeros((), device=engine.device)
        for c, method in enumerate(self.methods):
            g = g_value(o[:, c], method.output_g, method.bound_alpha)
            losses = l[:, c] if method.uses_losses else None
            J = J + g_objective(losses, g[:, :B], g[:, B:], method.loss_bound, method.relative_alpha, s)[0].sum()
        self.sgd.step(J)

    def write_back(self) -> None:
        """The trained heads into the engine's."""
        engine, C = self.engine, len(self.chosen)
        with torch.no_grad():
            for head, part in zip(engine.h, self.parameters, strict=True):
                head.view(engine.G, engine.H, *head.shape[1:])[:, self.chosen] = part.view(
                    engine.G, C, *part.shape[1:]
                )


def _pretraining(methods: Sequence[Method], schedule: Schedule) -> Pretraining:
    """The one pretraining of all these methods, which share a classifier in each group."""
    renewals = {method.renew for method in methods}
    if len(renewals) != 1:
        raise ValueError(f"methods of one engine share their classifier; got renew in {sorted(renewals)}.")
    return Pretraining(schedule.pretrain_epochs, schedule.rate_pretrain, renew=renewals.pop())


def _on(device: torch.device, flat: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    flat = flat.to(device)
    return flat, views(flat, [p.shape for p in parameters])


def _rows(X: Tensor, index: Tensor) -> Tensor:
    """(G, B, ...): each group's rows by their numbers."""
    return X[torch.arange(len(X), device=X.device)[:, None], index]


def _fixed_stream(target: bool) -> str:
    return "rows_g_target" if target else "rows_f"
