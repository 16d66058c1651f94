"""Tensors in a safetensors file and everything else in JSON beside it, replaced as one; nothing is unpickled."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from covshift.exceptions import MissingExtraError, ResumeMismatchError
from covshift.nn.door import seed_of

__all__ = [
    "CHECKPOINT",
    "FORMAT",
    "MODEL",
    "describe",
    "describe_optimizer",
    "digest",
    "flatten_optimizer",
    "read_state",
    "refuse_difference",
    "restore_optimizer",
    "run_seed",
    "write_state",
]

FORMAT = 2
CHECKPOINT, MODEL = "checkpoint", "model"
_INDEX = "state.json"


def _safetensors() -> Any:
    try:
        import safetensors.torch as module
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "checkpoints need safetensors; install it with: pip install 'covshift[nn]'"
        ) from error
    return module


def write_state(
    folder: str | Path, tensors: dict[str, Tensor], facts: dict[str, Any], kind: str = CHECKPOINT
) -> None:
    """Write both files so that a kill at any instant leaves the previous state or the new one, never a mixture.

    The tensor file gets a new name; the JSON that names it is put in place by one atomic rename, and only then are
    older tensor files removed.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / _INDEX
    there: dict[str, Any] = json.loads(index.read_text()) if index.exists() else {"number": -1, "kind": kind}
    if there.get("kind") != kind:
        raise FileExistsError(f"{str(folder)!r} holds a {there.get('kind')}; choose another folder for a {kind}.")
    number = there["number"] + 1
    name = f"tensors-{number:06d}.safetensors"
    cpu = {key: value.detach().to("cpu", copy=True).contiguous() for key, value in tensors.items()}
    _write_whole(folder / name, _safetensors().save(cpu))
    text = json.dumps({"format": FORMAT, "kind": kind, "number": number, "tensors": name, **facts}, indent=1)
    _write_whole(index, text.encode())
    for old in folder.glob("tensors-*.safetensors"):
        if old.name != name:
            old.unlink(missing_ok=True)


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def read_state(folder: str | Path, kind: str = CHECKPOINT) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """(tensors, facts), or None where there is nothing yet."""
    index = Path(folder) / _INDEX
    if not index.exists():
        return None
    facts = json.loads(index.read_text())
    if facts.get("format") != FORMAT:
        raise ResumeMismatchError(
            f"the checkpoint in {str(folder)!r} has format {facts.get('format')!r}, this version writes {FORMAT}; "
            "continue with the version that wrote it, or choose another folder."
        )
    if facts.get("kind") != kind:
        raise ResumeMismatchError(f"{str(folder)!r} holds a {facts.get('kind')}, not a {kind}; name another folder.")
    return _safetensors().load((index.parent / facts["tensors"]).read_bytes()), facts


def run_seed(random_state: Any, checkpoint: str | Path | None) -> int:
    """The run's seed; where none is given, that of the checkpoint to go on from."""
    index = None if checkpoint is None else Path(checkpoint) / _INDEX
    if not isinstance(random_state, int | np.integer) and index is not None and index.exists():
        saved = json.loads(index.read_text()).get("settings", {}).get("seed")
        if saved is not None:
            return int(saved)
    return seed_of(random_state)


def digest(tensors: Sequence[Tensor | None]) -> str:
    """A checksum of rows, so that a run is not continued on others of the same number."""
    total = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        flat = None if tensor is None else tensor.cpu().contiguous().reshape(-1).view(torch.uint8)
        total.update(b"-" if flat is None else flat.numpy().tobytes())
    return total.hexdigest()


def describe_optimizer(optimizer: torch.optim.Optimizer | None) -> list[Any]:
    """[class, settings of each group] of an optimiser as it was made."""
    if optimizer is None:
        return []
    groups = [{k: repr(v) for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    return [type(optimizer).__name__, groups]


def describe(module: torch.nn.Module | None) -> list[list[Any]]:
    """[name, shape, type] of every parameter and buffer: what a checkpoint must agree with."""
    if module is None:
        return []
    return [[key, list(value.shape), str(value.dtype)] for key, value in module.state_dict().items()]


def refuse_difference(saved: dict[str, Any], now: dict[str, Any], folder: str | Path) -> None:
    """Refuse to continue with another architecture, version or setting, naming each difference."""
    differences = [
        f"{key}: {_short(saved.get(key))} there, {_short(now.get(key))} here"
        for key in sorted(saved.keys() | now.keys())
        if saved.get(key) != now.get(key)
    ]
    if differences:
        raise ResumeMismatchError(
            f"the checkpoint in {str(folder)!r} belongs to another run ({'; '.join(differences)}); "
            "use the same settings, or another folder for checkpoint=."
        )


def _short(value: Any, length: int = 120) -> str:
    text = json.dumps(value)
    return text if len(text) <= length else text[: length - 3] + "..."


def flatten_optimizer(optimizer: torch.optim.Optimizer, prefix: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as named tensors and JSON facts."""
    state = optimizer.state_dict()
    tensors, numbers = {}, {}
    for index, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{prefix}.{index}.{name}"] = value
            elif value is not None:
                numbers[f"{index}.{name}"] = value
    groups = [{k: v for k, v in group.items() if k != "params"} for group in state["param_groups"]]
    rates = [{k: float(v) if isinstance(v, Tensor) else v for k, v in group.items()} for group in groups]
    return tensors, {"groups": rates, "numbers": numbers}


def restore_optimizer(
    optimizer: torch.optim.Optimizer, prefix: str, tensors: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    """Put back what `flatten_optimizer` took out."""
    fresh = optimizer.state_dict()
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        if key.startswith(prefix + "."):
            index, name = key[len(prefix) + 1 :].split(".", 1)
            state.setdefault(int(index), {})[name] = value
    for key, number in facts["numbers"].items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = number
    groups = []
    for here, saved in zip(fresh["param_groups"], facts["groups"], strict=True):
        # JSON turns tuples (Adam's betas) into lists; the optimiser's own kinds come back here.
        kinds = {k: tuple(v) if isinstance(here.get(k), tuple) else v for k, v in saved.items()}
        groups.append({**kinds, "params": here["params"]})
    optimizer.load_state_dict({"state": state, "param_groups": groups})
