"""The trainer against what one would write first, both in one run.

* an epoch of f against a DataLoader loop with torch's defaults (at least 1.35 times): on one thread (processor time)
  and on all cores (wall-clock seconds: the machine must be quiet). Images come as they were fetched, bytes that a
  Dataset turns into tensors one by one as data sets of images do, or as float tensors that are already in memory,
  where the convolutions, which are the same in both loops, are nearly all there is. And the same in bfloat16;
* g's epochs on cached frozen features against computing them in every step (at least 6 times, one thread).
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks._record import Record
from covshift.nn import OneStepTrainer, make_cnn

ROWS, BATCH = 1280, 128


class FetchedImages(Dataset):
    """Images (n, height, width) of bytes and their labels, turned into tensors one by one."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images = images
        self.labels = labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(self.images[i]).float().div(255)[None], int(self.labels[i])


def f_epoch() -> list[Record]:
    """An epoch of f, everything from the fit's checks (and the bytes' change to floats) to the last step included."""
    X, y, _ = _images()
    images, labels = (255 * X[:, 0]).byte().numpy(), y.numpy()

    def from_bytes() -> None:
        floats = torch.from_numpy(images).float().div(255)[:, None]
        _trainer(weights="uniform", epochs_f=1).fit((floats, torch.from_numpy(labels)))

    works = (
        lambda: plain_epoch(FetchedImages(images, labels)),
        from_bytes,
        lambda: plain_epoch(TensorDataset(X, y)),
        lambda: _trainer(weights="uniform", epochs_f=1).fit((X, y)),
        lambda: _trainer(weights="uniform", epochs_f=1, precision="bf16").fit((X, y)),
    )
    records = []
    for threads, clock in {1: time.process_time, os.cpu_count() or 1: time.perf_counter}.items():
        torch.set_num_threads(threads)  # of this process, which does nothing else
        plain_bytes, our_bytes, plain, ours, bf16 = _medians(*works, repeats=9, clock=clock)
        work = f"an epoch of f, {ROWS} images, {threads} thread{'s' * (threads > 1)}"
        records += [
            _ratio(f"{work}: as fetched, against a DataLoader loop", plain_bytes, our_bytes),
            _ratio(f"{work}: float tensors, against a DataLoader loop", plain, ours),
            Record(f"{work}: bfloat16 against float32", ours / bf16, "x", note=f"{ours:.3f} s and {bf16:.3f} s"),
        ]
    return records


def _ratio(work: str, plain: float, ours: float) -> Record:
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


def plain_epoch(data: Dataset) -> None:
    """One epoch as tutorials write it."""
    network = make_cnn(1, 28, 28, 10)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for X_b, y_b in DataLoader(data, BATCH, shuffle=True):
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


def _medians(
    *works: Callable[[], object], repeats: int, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Median seconds of each, taken in turns, after one untimed call of each."""
    seconds: list[list[float]] = [[] for _ in works]
    for repeat in range(repeats + 1):
        for own, work in zip(seconds, works, strict=True):
            start = clock()
            work()
            if repeat:
                own.append(clock() - start)
    return [statistics.median(own) for own in seconds]
