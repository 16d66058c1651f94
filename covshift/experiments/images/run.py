"""The third table's raw rows: every method, level and trial, many of them trained at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from covshift._checks import check_choice, check_count, check_number
from covshift.experiments.images.checkpoint import load_checkpoint, remove_checkpoint, save_checkpoint
from covshift.experiments.images.engine import Engine, Group, Schedule
from covshift.experiments.images.kernels import forget_compiled, tf32_products
from covshift.experiments.images.methods import FURTHER, METHODS, Method, method_named
from covshift.experiments.images.problem import DATASETS, LEVELS, load_images
from covshift.experiments.rows import Row, RowWriter
from covshift.nn.door import resolve_device
from covshift.nn.progress import format_seconds

__all__ = ["run_images", "scaled_schedule"]

# What decides the numbers; rows made with other text are not continued.
_CODE = (
    "experiments/images",
    "datasets/_rotate.py",
    "nn/objective.py",
    "nn/pretraining.py",
    "nn/weights.py",
    "nn/seeds.py",
    "nn/networks.py",
)


def scaled_schedule(scale: float, angles: str) -> Schedule:
    """The paper's schedule at scale 1; below, rounds and epochs shrink by the square root of the scale."""
    full = Schedule(angles=angles)
    if scale == 1.0:
        return full
    counts = {name: getattr(full, name) for name in ("rounds", "epochs_g", "epochs_f", "pretrain_epochs")}
    return replace(full, **{name: max(1, round(count * scale**0.5)) for name, count in counts.items()})


def run_images(
    *,
    datasets: Sequence[str] | None = None,
    levels: Sequence[tuple[int, int]] = LEVELS,
    methods: Sequence[str] | None = None,
    trials: int = 5,
    device: str = "auto",
    scale: float = 1.0,
    angles: str = "fresh",
    out: str | Path = "covshift-results",
    mode: str = "new",
    time_limit: float | None = None,
    models_at_once: int | None = None,
    say: Callable[[str], None] = print,
) -> bool:
    """Write rows to `<out>/images/rows.csv`; True when all are there, False when the time limit came first.

    Parameters
    ----------
    datasets, methods : printed names (None: all; of the methods, all but `FURTHER`).
    levels : (a, b) of the source's angles, the target's are (b, a).
    trials : seeds 0 .. trials - 1. angles : "fresh" (a new angle for every image in every epoch) or "fixed".
    scale : share of the images; below 1 the schedule shrinks too, and the figures are no longer the paper's.
    mode : "new", "resume" or "overwrite", as for all rows. time_limit : seconds after which the command stops at the
        end of a round, to be continued with "resume".
    models_at_once : runs trained together (None: 60 on an accelerator, 11 on a CPU, whose cache is small).
    """
    check_count("trials", trials)
    check_number("scale", scale, 0.0, 1.0, open_low=True)
    check_choice("angles", angles, ("fresh", "fixed"))
    names = [check_choice("datasets", name, DATASETS) for name in datasets or DATASETS]
    chosen = [method_named(name) for name in methods or [method.name for method in METHODS]]
    place = resolve_device(device)
    schedule = scaled_schedule(scale, angles)
    at_once = models_at_once or (60 if place.type == "cuda" else 11)
    settings = _settings(schedule, scale, place)
    folder = Path(out) / "images"
    _refuse_full_rows(folder, scale)
    started = time.perf_counter()
    if mode == "overwrite":
        remove_checkpoint(folder)
    keys = ("problem", "seed", "method")
    writer = RowWriter(folder, settings, 1, mode=mode, extra=("angles", "ess"), trial_by=keys, code=_CODE)
    with writer, tf32_products():
        for name in names:
            images = None
            for groups, missing in _chunks(name, levels, trials, chosen, angles, writer.done, at_once):
                images = images or load_images(name, scale)
                if place.type == "cuda":
                    forget_compiled()
                engine = Engine(images, groups, missing, schedule, place)
                if not _finish(engine, name, writer, folder, started, time_limit, say):
                    say(f"stopped at the time limit after round {engine.round}; go on with --resume")
                    return False
        writer.finish()
    return True


def _refuse_full_rows(folder: Path, scale: float) -> None:
    """Rows of a share of the images never replace, or stand in the place of, the full ones."""
    if scale < 1.0 and folder.resolve().parts[-2:] == ("results", "images"):
        raise ValueError(f"scale={scale:g} is not for {folder}, the place of the full rows; choose another out")


def problem_name(dataset: str, group: Group, angles: str) -> str:
    """ "fashion-mnist (2, 4)", with a remark where the angles stand still."""
    return f"{dataset} ({group.a}, {group.b})" + (", one angle for good" if angles == "fixed" else "")


def _chunks(
    name: str,
    levels: Sequence[tuple[int, int]],
    trials: int,
    methods: Sequence[Method],
    angles: str,
    done: set[tuple[str, ...]],
    models_at_once: int,
) -> list[tuple[list[Group], list[Method]]]:
    """Groups with the same missing methods, in portions of about equal size; one renewal of g a portion."""
    by_missing: dict[tuple[Method, ...], list[Group]] = {}
    for seed in range(trials):
        for a, b in levels:
            group = Group(a, b, seed)
            problem = problem_name(name, group, angles)
            for renew in sorted({m.renew for m in methods}):
                alike = [m for m in methods if m.renew == renew]
                missing = tuple(m for m in alike if (problem, str(seed), m.name) not in done)
                if missing:
                    by_missing.setdefault(missing, []).append(group)
    chunks = []
    for missing, groups in by_missing.items():
        most = max(models_at_once // len(missing), 1)
        portions = -(-len(groups) // most)
        size = -(-len(groups) // portions)
        chunks += [(groups[k : k + size], list(missing)) for k in range(0, len(groups), size)]
    return chunks


def _finish(
    engine: Engine,
    dataset: str,
    writer: RowWriter,
    folder: Path,
    started: float,
    time_limit: float | None,
    say: Callable[[str], None],
) -> bool:
    """Train one chunk to the end and add its rows; False where the time limit stopped it."""
    rounds = engine.schedule.rounds
    facts = {
        "dataset": dataset,
        "groups": [list(asdict(group).values()) for group in engine.groups],
        "methods": [method.name for method in engine.methods],
    }
    engine.round = load_checkpoint(folder, engine.state(), facts) or 0
    say(f"{dataset}: {engine.R} runs ({engine.G} of level and trial, {engine.M} methods) on {engine.device}")
    begun, first = time.perf_counter(), engine.round
    while engine.round < rounds:
        before = time.perf_counter()
        engine.run_round()
        loss = engine.mean_loss.mean().item()
        now = time.perf_counter()
        left = (now - begun) / (engine.round - first) * (rounds - engine.round)
        say(f"  round {engine.round}/{rounds}  mean loss {loss:.4f}  {format_seconds(left)} left")
        if time_limit is not None and now - started + 1.3 * (now - before) > time_limit and engine.round < rounds:
            save_checkpoint(folder, engine.state(), {**facts, "round": engine.round})
            return False
        if engine.round % 5 == 0:
            save_checkpoint(folder, engine.state(), {**facts, "round": engine.round})
    seconds = (time.perf_counter() - begun) / engine.R
    _add_rows(engine, dataset, writer, seconds)
    remove_checkpoint(folder)
    return True


def _add_rows(engine: Engine, dataset: str, writer: RowWriter, seconds: float) -> None:
    accuracy, ess = engine.accuracy().tolist(), engine.ess().tolist()
    for r in range(engine.R):
        group, method = engine.groups[r // engine.M], engine.methods[r % engine.M]
        extra = {"angles": engine.schedule.angles, "ess": round(ess[r], 4)}
        problem = problem_name(dataset, group, engine.schedule.angles)
        writer.add([Row(problem, method.name, group.seed, "accuracy", accuracy[r], seconds, extra)])


def _settings(schedule: Schedule, scale: float, device: torch.device) -> dict[str, Any]:
    described = {m.name: {k: repr(v) for k, v in asdict(m).items() if k != "name"} for m in METHODS + FURTHER}
    return {
        "schedule": {k: v for k, v in asdict(schedule).items() if k != "angles"},
        "scale": scale,
        "products": "TF32" if device.type == "cuda" else "float32",
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "methods": described,
    }
