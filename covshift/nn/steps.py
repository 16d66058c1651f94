"""The pieces of a training step, as functions of networks and rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from covshift.nn.losses import NetLoss
from covshift.nn.pretraining import classifier_loss
from covshift.nn.rows import RowSet
from covshift.nn.seeds import epoch_order
from covshift.nn.state import RunState

__all__ = [
    "add",
    "apply",
    "check_row_weights",
    "descend",
    "endless",
    "ordered",
    "paired_outputs",
    "precision_gap",
    "pretrain_value",
    "put_noise",
    "require_finite",
    "round_record",
    "take_noise",
]

_CHUNK = 4096  # rows at a time where no gradient is needed


def apply(network: nn.Module, X: Tensor) -> Tensor:
    """The network on all rows, in evaluation mode and without gradients."""
    was_training = network.training
    network.eval()
    with torch.no_grad():
        output = torch.cat([network(part) for part in X.split(_CHUNK)])
    network.train(was_training)
    return output


def ordered(rows: RowSet, order: Tensor, batch_size: int) -> Iterator[RowSet]:
    """Mini-batches of rows in the given order."""
    for index in order.to(rows.X.device).split(batch_size):
        yield rows[index]


def endless(rows: RowSet, seed: int, stream: str, epoch: int, batch_size: int) -> Iterator[RowSet]:
    """Full mini-batches of min(batch_size, rows) rows, one permutation after another."""
    size, permutation, rest = min(batch_size, len(rows)), 0, torch.empty(0, dtype=torch.long)
    while True:
        if len(rest) < size:
            rest = torch.cat([rest, epoch_order(len(rows), seed, stream, epoch, permutation)])
            permutation += 1
        yield rows[rest[:size].to(rows.X.device)]
        rest = rest[size:]


def paired_outputs(head: nn.Module, source: RowSet, target: RowSet) -> tuple[Tensor, Tensor]:
    """g's raw outputs on both mini-batches, in one pass."""
    o = head(torch.cat([source.X, target.X])).reshape(-1)
    return o[: len(source)], o[len(source) :]


def pretrain_value(g: nn.Module, source: RowSet, target: RowSet) -> Tensor:
    """The classifier's loss on a pair of mini-batches."""
    o_source, o_target = paired_outputs(g, source, target)
    return classifier_loss(o_source, o_target, source.s)


def descend(optimizer: torch.optim.Optimizer, value: Tensor, clip_grad: float | None) -> None:
    """One step of the optimiser on `value`."""
    optimizer.zero_grad(set_to_none=True)
    value.backward()
    if clip_grad is not None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        nn.utils.clip_grad_norm_(parameters, clip_grad)
    optimizer.step()


def require_finite(value: float, what: str, t: int, step: int, lower: str) -> None:
    """NaN and infinity stop the run before they reach the parameters."""
    if not math.isfinite(value):
        raise FloatingPointError(
            f"{what} is {value} in round {t}, mini-batch {step}; lower {lower}, and look for NaN or huge rows."
        )


def check_row_weights(w: Any, rows: int) -> Tensor:
    """A user's weights: a tensor with one finite number >= 0 a row."""
    if not isinstance(w, Tensor) or w.shape != (rows,):
        got = tuple(w.shape) if isinstance(w, Tensor) else type(w).__name__
        raise ValueError(
            f"weights(rows) returned {got} for {rows} rows; it must return a tensor of one weight a row."
        )
    if not bool(torch.isfinite(w).all()) or bool((w < 0).any()):
        raise ValueError("weights(rows) returned negative or non-finite weights; they must be finite and >= 0.")
    return w.detach()


def precision_gap(f: nn.Module, loss: NetLoss, rows: RowSet, device: torch.device) -> float:
    """Relative difference of f's mean loss between bfloat16 and float32."""
    assert rows.y is not None
    exact = float(loss(apply(f, rows.X), rows.y).mean())
    with torch.autocast(device.type, torch.bfloat16):
        rough = float(loss(apply(f, rows.X), rows.y).mean())
    return abs(rough - exact) / max(abs(exact), 1e-3)


def add(sums: dict[str, float], parts: dict[str, float]) -> None:
    """Add a step's numbers to the round's."""
    for name, value in parts.items():
        sums[name] += value


def round_record(t: int, sums: dict[str, float], epochs_f: int, seconds: float, rate: float) -> dict[str, Any]:
    """What `history_` keeps of a round: means over its mini-batches.

    `ess` is the effective sample size of one epoch's weights as f used them, pooled over the round's mini-batches.
    """
    steps_f, steps_g = max(sums["steps_f"], 1.0), sums["steps_g"]
    rows = sums["rows"] / max(epochs_f, 1)
    share = sums["w"] ** 2 / sums["w2"] / sums["rows"] if sums["w2"] > 0 else 0.0
    return {
        "round": t,
        "loss": sums["loss"] / steps_f,
        "objective": sums["objective"] / steps_g if steps_g else None,
        "weighted_risk": sums["risk"] / steps_g if steps_g else None,
        "ratio_term": sums["ratio"] / steps_g if steps_g else None,
        "ess": share * rows,
        "rows": round(rows),
        "skipped": int(sums["skipped"]),
        "rate_f": float(rate),
        "seconds": seconds,
    }


def take_noise(run: RunState, device: torch.device) -> None:
    """Note where torch's (lent) global generators are, for a checkpoint inside an epoch."""
    run.noise = torch.get_rng_state()
    if device.type == "cuda":
        run.cuda_noise = torch.cuda.get_rng_state(device)


def put_noise(run: RunState, device: torch.device) -> None:
    """Set torch's (lent) global generators to where the checkpoint found them."""
    if run.noise is not None:
        torch.set_rng_state(run.noise)
    if run.cuda_noise is not None and device.type == "cuda":
        torch.cuda.set_rng_state(run.cuda_noise, device)
