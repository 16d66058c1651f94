"""The third table's raw rows: every method, level and trial, many of them trained at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from covshift._checks import check_choice, check_count, check_number
from covshift.exceptions import ResumeMismatchError
from covshift.experiments.images.checkpoint import load_checkpoint, read_facts, remove_checkpoint, save_checkpoint
from covshift.experiments.images.engine import Engine, Group, Schedule
from covshift.experiments.images.kernels import forget_compiled, tf32_products
from covshift.experiments.images.methods import FURTHER, METHODS, Method, method_named
from covshift.experiments.images.problem import DATASETS, LEVELS, Images, load_images
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


@dataclass(frozen=True)
class Runs:
    """Every group with every method on one data set; run r is group r // M with method r % M."""

    dataset: str
    angles: str
    groups: tuple[Group, ...]
    methods: tuple[Method, ...]

    def keys(self) -> list[tuple[str, str, str]]:
        """(problem, seed, method) of every run, as `RowWriter.done` has them."""
        return [
            (problem_name(self.dataset, group, self.angles), str(group.seed), method.name)
            for group in self.groups
            for method in self.methods
        ]

    def facts(self) -> dict[str, Any]:
        """What a checkpoint says of its runs, beside the settings that tell what the methods' names mean."""
        return {
            "dataset": self.dataset,
            "angles": self.angles,
            "groups": [list(astuple(group)) for group in self.groups],
            "methods": [method.name for method in self.methods],
        }


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
    mode : "new", "resume" or "overwrite", as for all rows; what a checkpoint began is finished first, and must be
        among what is asked for now. time_limit : seconds after which the command stops at the end of a round, to be
        continued with "resume".
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
    deadline = math.inf if time_limit is None else time.perf_counter() + time_limit
    if mode == "overwrite":
        remove_checkpoint(folder)
    groups = tuple(Group(a, b, seed) for seed in range(trials) for a, b in levels)
    asked = [Runs(name, angles, groups, tuple(chosen)) for name in names]
    keys = ("problem", "seed", "method")
    writer = RowWriter(folder, settings, 1, mode=mode, extra=("angles", "ess"), trial_by=keys, code=_CODE)
    with writer, tf32_products():
        images: dict[str, Images] = {}
        for runs in _chunks(asked, writer, settings, at_once):
            if runs.dataset not in images:
                images = {runs.dataset: load_images(runs.dataset, scale)}
            if place.type == "cuda":
                forget_compiled()
            engine = Engine(images[runs.dataset], runs.groups, runs.methods, schedule, place)
            if not _finish(engine, runs, writer, settings, deadline, say):
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
    asked: Sequence[Runs], writer: RowWriter, settings: dict[str, Any], models_at_once: int
) -> Iterator[Runs]:
    """The runs of a checkpoint first, in the portion they began in; then all that is missing when they are done."""
    begun = _begun(asked, writer, settings)
    if begun is not None:
        yield begun
    for runs in asked:
        yield from _portions(runs, writer.done, models_at_once)


def _begun(asked: Sequence[Runs], writer: RowWriter, settings: dict[str, Any]) -> Runs | None:
    """The runs of the checkpoint, which must be among those asked for; one whose rows are all there is removed."""
    saved = read_facts(writer.folder)
    if saved is None:
        return None
    if saved.get("settings") != settings:
        raise _not_ours(writer.folder, "made with other settings, or by another version")
    groups = tuple(Group(*numbers) for numbers in saved["groups"])
    runs = Runs(saved["dataset"], saved["angles"], groups, tuple(map(method_named, saved["methods"])))
    missing = [key for key in runs.keys() if key not in writer.done]
    if not missing:
        remove_checkpoint(writer.folder)
        return None
    wanted = {key for part in asked for key in part.keys()}
    for key in missing:
        if key not in wanted:
            problem, seed, method = key
            raise _not_ours(writer.folder, f"with {method} on {problem}, seed {seed}, which is not asked for here")
    return runs


def _not_ours(folder: Path, why: str) -> ResumeMismatchError:
    return ResumeMismatchError(
        f"the checkpoint in {folder} belongs to another run ({why}); use the same arguments, or --overwrite."
    )


def _portions(runs: Runs, done: set[tuple[str, ...]], models_at_once: int) -> list[Runs]:
    """Groups with the same missing methods, in portions of about equal size; one renewal of g a portion."""
    by_missing: dict[tuple[Method, ...], list[Group]] = {}
    for group in runs.groups:
        for renew in sorted({m.renew for m in runs.methods}):
            alike = replace(runs, groups=(group,), methods=tuple(m for m in runs.methods if m.renew == renew))
            missing = tuple(m for m, key in zip(alike.methods, alike.keys(), strict=True) if key not in done)
            if missing:
                by_missing.setdefault(missing, []).append(group)
    portions = []
    for missing, groups in by_missing.items():
        most = max(models_at_once // len(missing), 1)
        count = -(-len(groups) // most)
        size = -(-len(groups) // count)
        starts = range(0, len(groups), size)
        portions += [replace(runs, groups=tuple(groups[k : k + size]), methods=missing) for k in starts]
    return portions


def _finish(
    engine: Engine,
    runs: Runs,
    writer: RowWriter,
    settings: dict[str, Any],
    deadline: float,
    say: Callable[[str], None],
) -> bool:
    """Train one portion to the end and add its rows; False where the deadline stopped it.

    The last round leaves no checkpoint, so that what goes on from one always has the weights of a last epoch.
    """
    rounds = engine.schedule.rounds
    saved = load_checkpoint(writer.folder, engine.state()) or {"round": 0, "seconds": 0.0}
    engine.round = first = saved["round"]
    say(f"{runs.dataset}: {engine.R} runs ({engine.G} of level and trial, {engine.M} methods) on {engine.device}")
    begun = time.perf_counter()
    while engine.round < rounds:
        before = time.perf_counter()
        engine.run_round()
        loss = engine.mean_loss.mean().item()
        now = time.perf_counter()
        left = (now - begun) / (engine.round - first) * (rounds - engine.round)
        say(f"  round {engine.round}/{rounds}  mean loss {loss:.4f}  {format_seconds(left)} left")
        late = now + 1.3 * (now - before) > deadline
        if engine.round < rounds and (late or engine.round % 5 == 0):
            spent = {"round": engine.round, "seconds": saved["seconds"] + now - begun}
            save_checkpoint(writer.folder, engine.state(), {**runs.facts(), "settings": settings, **spent})
            if late:
                return False
    seconds = (saved["seconds"] + time.perf_counter() - begun) / engine.R
    _add_rows(engine, runs, writer, seconds)
    remove_checkpoint(writer.folder)
    return True


def _add_rows(engine: Engine, runs: Runs, writer: RowWriter, seconds: float) -> None:
    """The rows that are not there yet: a kill may have come between two of them."""
    accuracy, ess = engine.accuracy().tolist(), engine.ess().tolist()
    for r, key in enumerate(runs.keys()):
        if key not in writer.done:
            problem, seed, method = key
            extra = {"angles": runs.angles, "ess": round(ess[r], 4)}
            writer.add([Row(problem, method, int(seed), "accuracy", accuracy[r], seconds, extra)])


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
