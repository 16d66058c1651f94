"""The trainer against what one would write first, both in one run and on one thread.

* an epoch of f on images in memory against a DataLoader loop with torch's defaults (at least 1.35 times);
* g's epochs on cached frozen features against computing them in every step (at least 6 times).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks._record import Record
from covshift.nn import OneStepTrainer, make_cnn

ROWS, BATCH = 1280, 128


def f_epoch() -> Record:
    """An epoch of f, everything from the fit's checks to the last step included."""
    X, y, _ = _images()
    plain, ours = _medians(
        lambda: plain_epoch(X, y),
        lambda: _trainer(weights="uniform", epochs_f=1).fit((X, y)),
        repeats=7,
    )
    work = f"an epoch of f, {ROWS} images, against a DataLoader loop"
    return Record(work, plain / ours, "x", must=1.35, note=f"{plain:.3f} s and {ours:.3f} s")


def g_epochs() -> Record:
    """Twenty epochs of g whose convolutions stay as pretrained."""
    X, y, X_target = _images()
    options = {"epochs_g": 20, "epochs_f": 0, "output_g": "softplus"}
    each, cached = _medians(
        lambda: _trainer(**options).fit((X, y), X_target),
        lambda: _trainer(**options, freeze_g=1).fit((X, y), X_target),
        repeats=3,
    )
    work = f"20 epochs of g, 2 x {ROWS} images, cached features against features in every step"
    return Record(work, each / cached, "x", must=6.0, note=f"{each:.2f} s and {cached:.2f} s")


def plain_epoch(X: torch.Tensor, y: torch.Tensor) -> None:
    """One epoch as tutorials write it."""
    network = make_cnn(1, 28, 28, 10)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for X_b, y_b in DataLoader(TensorDataset(X, y), BATCH, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(X_b), y_b).backward()
        optimizer.step()


def _trainer(**options: Any) -> OneStepTrainer:
    """One round on the CPU."""
    settings: dict[str, Any] = {"rounds": 1, "batch_size": BATCH, "device": "cpu", "random_state": 0}
    settings |= {"pretrain_g": False, **options}
    return OneStepTrainer(make_cnn(1, 28, 28, 10), make_cnn(1, 28, 28, 1), **settings)


def _images() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    X, X_target = (torch.rand(ROWS, 1, 28, 28, generator=draw) for _ in range(2))
    return X, torch.randint(0, 10, (ROWS,), generator=draw), X_target


def _medians(*works: Callable[[], object], repeats: int) -> list[float]:
    """Median processor seconds of each, taken in turns, after one untimed call of each."""
    seconds: list[list[float]] = [[] for _ in works]
    for repeat in range(repeats + 1):
        for own, work in zip(seconds, works, strict=True):
            start = time.process_time()
            work()
            if repeat:
                own.append(time.process_time() - start)
    return [statistics.median(own) for own in seconds]
