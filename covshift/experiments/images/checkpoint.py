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

__all__ = ["load_checkpoint", "remove_checkpoint", "save_checkpoint"]

_PART = 15 * 2**20 // 4  # float32 numbers in a file
_INDEX = "checkpoint.json"


def save_checkpoint(folder: Path, tensors: Sequence[Tensor], facts: dict[str, Any]) -> None:
    """Write all tensors as one float32 vector in parts; the index that names them is put in place last."""
    folder.mkdir(parents=True, exist_ok=True)
    vector = torch.cat([tensor.detach().reshape(-1).float().cpu() for tensor in tensors]).numpy()
    names = []
    for k, start in enumerate(range(0, len(vector), _PART)):
        names.append(f"checkpoint-{facts['round']:03d}-{k}.npy")
        np.save(folder / names[-1], vector[start : start + _PART])
    temporary = folder / (_INDEX + ".tmp")
    temporary.write_text(json.dumps({"files": names, **facts}))
    os.replace(temporary, folder / _INDEX)
    for old in folder.glob("checkpoint-*.npy"):
        if old.name not in names:
            old.unlink()


def load_checkpoint(folder: Path, tensors: Sequence[Tensor], facts: dict[str, Any]) -> int | None:
    """Fill the tensors and return the round to go on with; None where there is no checkpoint.

    `facts` (without the round) must be those of the run that wrote it.
    """
    index = folder / _INDEX
    if not index.exists():
        return None
    saved = json.loads(index.read_text())
    different = [
        f"{key}: {saved.get(key)} there, {value} here" for key, value in facts.items() if saved.get(key) != value
    ]
    if different:
        raise ResumeMismatchError(
            f"{index} belongs to another run ({'; '.join(different)}); use the same arguments, or --overwrite."
        )
    vector = torch.from_numpy(np.concatenate([np.load(folder / name) for name in saved["files"]]))
    if len(vector) != sum(tensor.numel() for tensor in tensors):
        raise ResumeMismatchError(f"{index} has another number of parameters; use --overwrite to start anew.")
    with torch.no_grad():
        for tensor, part in zip(tensors, vector.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view(tensor.shape))
    return int(saved["round"])


def remove_checkpoint(folder: Path) -> None:
    """Forget the checkpoint of a finished run."""
    for file in [folder / _INDEX, *folder.glob("checkpoint-*.npy")]:
        file.unlink(missing_ok=True)
