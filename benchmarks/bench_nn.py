"""The trainer against what one would write first, in one run: `python -m benchmarks.bench_nn` (one minute).

* an epoch of f on images in memory against a DataLoader loop with torch's defaults (at least 1.35 times);
* g's epochs on cached frozen features against computing them in every step (at least 6 times).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from covshift.nn import OneStepTrainer, make_cnn

ROWS, BATCH, REPEATS = 1280, 128, 3


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def plain_epoch(X: torch.Tensor, y: torch.Tensor) -> None:
    """One epoch as tutorials write it."""
    network = make_cnn(1, 28, 28, 10)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for X_b, y_b in DataLoader(TensorDataset(X, y), BATCH, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(X_b), y_b).backward()
        optimizer.step()


def trainer(**options: object) -> OneStepTrainer:
    """One round on the CPU."""
    settings = {"rounds": 1, "batch_size": BATCH, "device": "cpu", "random_state": 0, "pretrain_g": False}
    return OneStepTrainer(make_cnn(1, 28, 28, 10), make_cnn(1, 28, 28, 1), **settings | options)  # type: ignore[arg-type]


def main() -> None:
    """Print both ratios: medians of alternating repetitions."""
    draw = torch.Generator().manual_seed(0)
    X, X_target = (torch.rand(ROWS, 1, 28, 28, generator=draw) for _ in range(2))
    y = torch.randint(0, 10, (ROWS,), generator=draw)
    works = {
        "f, DataLoader loop": lambda: plain_epoch(X, y),
        "f, trainer": lambda: trainer(weights="uniform", epochs_f=1).fit((X, y)),
        "g, features each step": lambda: trainer(epochs_g=20, epochs_f=0, output_g="softplus").fit((X, y), X_target),
        "g, cached": lambda: trainer(epochs_g=20, epochs_f=0, output_g="softplus", freeze_g=1).fit((X, y), X_target),
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(REPEATS):
        for name, work in works.items():
            times[name].append(seconds(work))
    median = {name: statistics.median(values) for name, values in times.items()}
    for name, value in median.items():
        print(f"{name:24s} {value:7.3f} s")
    print(f"epoch of f:  {median['f, DataLoader loop'] / median['f, trainer']:.2f} times faster (wanted 1.35)")
    print(f"epochs of g: {median['g, features each step'] / median['g, cached']:.2f} times faster (wanted 6)")


if __name__ == "__main__":
    main()
