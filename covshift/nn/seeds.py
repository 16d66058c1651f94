"""Randomness without global state: every draw has its own generator, derived from the seed and what it is for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["STREAMS", "derive", "derived_seed", "epoch_order", "private_noise", "set_noise"]

# One number a purpose. Because a draw depends on (seed, purpose, counter) alone, a resumed run repeats it, and two
# methods with one seed see the same images in the same order whatever else they draw.
STREAMS = {
    name: number
    for number, name in enumerate(
        [
            "init", "order_f", "order_g", "order_g_target", "rows_f", "rows_g", "rows_g_target",
            "order_pretrain", "order_pretrain_target", "rows_pretrain", "rows_pretrain_target",
            "noise", "validation", "rows_evaluation",
        ]
    )
}  # fmt: skip


def derived_seed(seed: int, stream: str, *counters: int) -> int:
    """A 63-bit seed for one purpose and one place in the run."""
    words = np.random.SeedSequence([seed, STREAMS[stream], *counters]).generate_state(2, np.uint32)
    return (int(words[0]) << 31) ^ int(words[1])


def derive(seed: int, stream: str, *counters: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator for one purpose and one place in the run."""
    return torch.Generator(device).manual_seed(derived_seed(seed, stream, *counters))


def epoch_order(n: int, seed: int, stream: str, *counters: int) -> torch.Tensor:
    """The permutation of n rows for one epoch, drawn on the CPU so that it is the same on every device."""
    return torch.randperm(n, generator=derive(seed, stream, *counters))


@contextmanager
def private_noise(device: torch.device) -> Iterator[None]:
    """Dropout and friends draw from torch's global generators: lend them for the run, then put them back."""
    devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield


def set_noise(seed: int, *counters: int, device: torch.device) -> None:
    """Start the (lent) global generators afresh for one epoch."""
    torch.set_rng_state(derive(seed, "noise", *counters).get_state())
    if device.type == "cuda":
        torch.cuda.set_rng_state(derive(seed, "noise", *counters, device=device).get_state(), device)
