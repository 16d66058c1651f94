"""Which output and exponent g should have, chosen by importance-weighted accuracy on held-out source images.

No target label and no test image is read: held-out *source* images (angles from the source's law) are weighted by
one reference for all candidates, the pretrained classifier's p / (1-p), cut where its effective
sample size would be too small.
"""

from __future__ import annotations

import argparse
import json
import math
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
from covshift.nn.seeds import derive

CHOICE_LEVELS = ((2, 4), (2, 6))  # (2, 5) confirms
CHOICE_SEED = 1000  # not a trial's seed


def candidates() -> list[Method]:
    """Outputs, starts, bounds and exponents of g, and two controls beside them."""
    grid = [(0.1, 0.5), (0.1, 0.75), (0.1, 1.0), (0.02, 0.5), (0.02, 0.75), (0.005, 0.5)]
    return [
        Method("ERM", "uniform"),
        Method("classifier ^0.5", "classifier", output_g="exp", flattening=0.5),
        Method("classifier ^0.75", "classifier", output_g="exp", flattening=0.75),
        Method("linear logit"),
        Method("linear afresh", start_g="afresh"),
        Method("softplus logit", output_g="softplus", rate_g=1e-5),
        *[_relative(a, c) for a, c in grid],
        _relative(0.1, 0.75, loss_bound=math.inf),
        _relative(0.02, 0.5, loss_bound=math.inf),
    ]


def _relative(a: float, c: float, loss_bound: float = 1.0) -> Method:
    name = f"relative {a:g} ^{c:g}" + ("" if loss_bound == 1.0 else f" m={loss_bound:g}")
    return Method(name, output_g="relative", bound_alpha=a, relative_alpha=a, flattening=c, loss_bound=loss_bound)


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

    The plain ratio has no second moment here, so the reference is cut at the cap that leaves an effective
    sample size of `share` of the rows.
    """
    X, y = engine.images.X[engine.n :], engine.images.y[engine.n :]
    ratios, rights, losses = [], [], []
    source = torch.empty(engine.G, len(X), 28, 28, device=engine.device)
    for k in range(draws):
        for i, group in enumerate(engine.groups):
            source[i], _ = turned(X, group.a, group.b, derive(group.seed, "validation", k, device=engine.device))
        with torch.no_grad():
            o_g = head_outputs(engine.p[4:], engine.features(source)).squeeze(2)
            ratios.append(o_g.clamp(-30, 30).exp())
            o = engine.outputs(source)
            rights.append(o.argmax(2) == y)
            l = functional.cross_entropy(o.reshape(-1, 10), y.repeat(engine.R), reduction="none")
            losses.append(l.view(engine.R, -1))
    ratio, right, loss = torch.cat(ratios, 1), torch.cat(rights, 1), torch.cat(losses, 1)
    records: list[dict[str, Any]] = []
    for i in range(engine.R):
        group, method = engine.groups[i // engine.M], engine.methods[i % engine.M]
        whole = ratio[i // engine.M]
        w = whole.clamp_max(cap_for(whole, share))
        records.append({
            "level": f"({group.a}, {group.b})", "seed": group.seed, "method": method.name,
            "weighted_accuracy": 100 * float((w * right[i]).sum() / w.sum()),
            "weighted_loss": float((w * loss[i]).sum() / w.sum()), "cap": float(w.max()),
            "training_ess": float(engine.ess()[i]),
        })  # fmt: skip
    return records


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
    groups = [Group(a, b, CHOICE_SEED) for a, b in CHOICE_LEVELS]
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
