"""Which output, step and exponent g should have, chosen on held-out *source* images.

No target label and no test image is read. Two scores of held-out images under new angles: the weighted accuracy and
loss of f on source images (one reference weights all: the pretrained classifiers' mean log ratio, cut where its
effective sample size would be too small), and the classification loss of g's log ratio, source against target, which
needs no label at all and is far less noisy.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from covshift.experiments.images.engine import Engine, Group, Schedule
from covshift.experiments.images.kernels import tf32_products
from covshift.experiments.images.methods import Method
from covshift.experiments.images.problem import load_images, turned
from covshift.experiments.images.stacked import head_outputs
from covshift.nn.door import resolve_device
from covshift.nn.objective import effective_sample_size
from covshift.nn.pretraining import classifier_loss
from covshift.nn.seeds import derive

CHOICE_LEVELS = ((2, 4), (2, 6))  # (2, 5) confirms
CHOICE_SEEDS = (1000, 1001, 1002)  # no trial's seeds


def candidates() -> list[Method]:
    """Bounds, steps and exponents of the relative output beside the classifier they start from."""
    grid = [
        (0.1, 1e-4, 0.75), (0.1, 1e-4, 1.0), (0.02, 1e-4, 0.75), (0.02, 1e-5, 0.5), (0.02, 1e-5, 0.75),
        (0.02, 3e-6, 0.5), (0.005, 1e-6, 0.5), (0.005, 1e-6, 0.75),
    ]  # fmt: skip
    return [
        Method("classifier ^0.5", "classifier", output_g="exp", flattening=0.5),
        Method("classifier ^0.75", "classifier", output_g="exp", flattening=0.75),
        *[_relative(a, rate, c) for a, rate, c in grid],
    ]


def _relative(a: float, rate: float, c: float) -> Method:
    name = f"relative {a:g}, rate {rate:g}, ^{c:g}"
    return Method(name, output_g="relative", bound_alpha=a, relative_alpha=a, rate_g=rate, flattening=c)


def cap_for(r: Tensor, share: float) -> float:
    """The largest cap under which min(r, cap) has an effective sample size of at least `share` of its rows."""
    low, high = 1.0, float(r.max())
    for _ in range(40):
        middle = (low * high) ** 0.5
        enough = float(effective_sample_size(r.clamp_max(middle))) >= share * len(r)
        low, high = (middle, high) if enough else (low, middle)
    return low


def validate(engine: Engine, draws: int, share: float = 0.01) -> list[dict[str, Any]]:
    """Weighted accuracy and log loss of every run on the held-out images under `draws` sets of source angles.

    The reference is the mean log ratio of the level's pretrained classifiers, so that it is no single candidate's own
    weight. It has no second moment here and is cut at the cap that leaves an effective sample size of `share`.
    """
    X, y = engine.images.X[engine.n :], engine.images.y[engine.n :]
    ratios, rights, losses = [], [], []
    source = torch.empty(engine.G, len(X), 28, 28, device=engine.device)
    same_level = [[h.a == g.a and h.b == g.b for h in engine.groups] for g in engine.groups]
    mean_of_level = torch.tensor(same_level, device=engine.device, dtype=source.dtype)
    mean_of_level /= mean_of_level.sum(dim=1, keepdim=True)
    for k in range(draws):
        for i, group in enumerate(engine.groups):
            generator = derive(CHOICE_SEEDS[0], "validation", k, device=engine.device)
            source[i], _ = turned(X, group.a, group.b, generator)
        with torch.no_grad():
            o_g = head_outputs(engine.p[4:], engine.features(source)).squeeze(2)
            o_g = mean_of_level @ o_g
            ratios.append(o_g.clamp(-30, 30).exp())
            o = engine.outputs(source)
            rights.append(o.argmax(2) == y)
            l = functional.cross_entropy(o.reshape(-1, 10), y.repeat(engine.R), reduction="none")
            losses.append(l.view(engine.R, -1))
    ratio, right, loss = torch.cat(ratios, 1), torch.cat(rights, 1), torch.cat(losses, 1)
    fit = ratio_loss(engine, X, draws=10)
    records: list[dict[str, Any]] = []
    for i in range(engine.R):
        group, method = engine.groups[i // engine.M], engine.methods[i % engine.M]
        whole = ratio[i // engine.M]
        w = whole.clamp_max(cap_for(whole, share))
        records.append({
            "level": f"({group.a}, {group.b})", "seed": group.seed, "method": method.name,
            "weighted_accuracy": 100 * float((w * right[i]).sum() / w.sum()),
            "weighted_loss": float((w * loss[i]).sum() / w.sum()), "cap": float(w.max()), "ratio_loss": fit[i],
            "training_ess": float(engine.ess()[i]),
        })  # fmt: skip
    return records


def ratio_loss(engine: Engine, X: Tensor, draws: int) -> list[float]:
    """Classification loss of each run's log ratio on images X under source and target angles."""
    total = torch.zeros(engine.R, device=engine.device)
    images = torch.empty(engine.G, len(X), 28, 28, device=engine.device)
    for k in range(draws):
        outputs = []
        for stream, target in (("validation", False), ("rows_evaluation", True)):
            for i, group in enumerate(engine.groups):
                a, b = (group.b, group.a) if target else (group.a, group.b)
                images[i], _ = turned(X, a, b, derive(group.seed, stream, k + 1, device=engine.device))
            with torch.no_grad():
                Z = engine.features(images).repeat_interleave(engine.H, dim=0)
                outputs.append(head_outputs(engine.h, Z).view(engine.R, -1))
        total += classifier_loss(*outputs)
    return (total / draws).tolist()


def main(arguments: Sequence[str] | None = None) -> None:
    """Train all candidates at the two levels of choice and print the weighted scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="covshift-results")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--epochs-f", type=int, default=5)
    parser.add_argument("--draws", type=int, default=100)
    options = parser.parse_args(arguments)
    images = load_images("fashion-mnist", options.scale)
    schedule = Schedule(rounds=options.rounds, epochs_f=options.epochs_f, held_out=len(images.X) // 6)
    groups = [Group(a, b, seed) for a, b in CHOICE_LEVELS for seed in CHOICE_SEEDS]
    engine = Engine(images, groups, candidates(), schedule, resolve_device(options.device))
    with tf32_products():
        for t in range(schedule.rounds):
            started = time.perf_counter()
            engine.run_round()
            print(
                f"round {t + 1}: {engine.mean_loss.mean().item():.3f}, {time.perf_counter() - started:.1f} s",
                flush=True,
            )
        records = validate(engine, options.draws)
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "choice.json").write_text(json.dumps(records, indent=1))
    for record in records:
        print("  ".join(f"{v:.3f}" if isinstance(v, float) else str(v) for v in record.values()))


if __name__ == "__main__":
    main()
