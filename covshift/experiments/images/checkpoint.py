"""The state of a batched run in a few files of at most 15 MiB each, replaced as one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from covshift.exceptions import ResumeMismatchError
from covshift.experiments.rows import atomic_write

__all__ = ["load_checkpoint", "read_facts", "remove_checkpoint", "save_checkpoint"]

_PART = 15 * 2**20 // 4  # float32 numbers in a file
_INDEX = "checkpoint.json"


def save_checkpoint(folder: Path, tensors: Sequence[Tensor], facts: dict[str, Any]) -> None:
    """Write all tensors as one float32 vector in parts; the index that names them is put in place last.

    A kill at any instant leaves the state of before or this one: no round is written twice, so that the parts an
    index names are never touched before the next index is there. They are on the disk before it, as rows are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vector = torch.cat([tensor.detach().reshape(-1).float().cpu() for tensor in tensors]).numpy()
    names = []
    for k, start in enumerate(range(0, len(vector), _PART)):
        names.append(f"checkpoint-{facts['round']:03d}-{k}.npy")
        with open(folder / names[-1], "wb") as file:
            np.save(file, vector[start : start + _PART])
            file.flush()
            os.fsync(file.fileno())
    atomic_write(folder / _INDEX, json.dumps({"files": names, **facts}))
    for old in folder.glob("checkpoint-*.npy"):
        if old.name not in names:
            old.unlink()


def read_facts(folder: Path) -> dict[str, Any] | None:
    """What the run that wrote the checkpoint said of itself; None where there is no checkpoint."""
    index = folder / _INDEX
    return json.loads(index.read_text()) if index.exists() else None


def load_checkpoint(folder: Path, tensors: Sequence[Tensor]) -> dict[str, Any] | None:
    """Fill the tensors and return the facts; None where there is no checkpoint."""
    saved = read_facts(folder)
    if saved is None:
        return None
    vector = torch.from_numpy(np.concatenate([np.load(folder / name) for name in saved["files"]]))
    if len(vector) != sum(tensor.numel() for tensor in tensors):
        raise ResumeMismatchError(
            f"{folder / _INDEX} has another number of parameters; use --overwrite to start anew."
        )
    with torch.no_grad():
        for tensor, part in zip(tensors, vector.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view(tensor.shape))
    return saved


def remove_checkpoint(folder: Path) -> None:
    """Forget the checkpoint of a finished run."""
    for file in [folder / _INDEX, *folder.glob("checkpoint-*.npy")]:
        file.unlink(missing_ok=True)
