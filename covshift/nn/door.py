"""What the trainer checks before it computes anything; each refusal is one sentence with a way out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from covshift.nn.losses import NetLoss
from covshift.nn.rows import LoaderRows, RowSet, TensorRows

__all__ = ["check_f", "check_g", "check_outputs", "first_rows", "resolve_device", "resolve_precision", "seed_of"]

_PROBE_ROWS = 2
PRECISIONS = ("auto", "float32", "bf16")


def resolve_device(device: str | torch.device) -> torch.device:
    """ "auto" is an accelerator where there is one, else the CPU; a device that is not there is an error."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        if chosen.type == "meta":
            raise RuntimeError("it holds no numbers")
        if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
            raise RuntimeError(f"this machine has {torch.cuda.device_count()} CUDA device(s)")
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={str(device)!r} is not there ({reason}); pass device='cpu' or 'auto'.") from error
    return chosen


def resolve_precision(precision: str, device: torch.device) -> str:
    """ "auto" tries bfloat16 on an accelerator (the loop checks it against float32) and is float32 on a CPU."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision={precision!r} is not one of {PRECISIONS}.")
    if precision == "auto":
        return "bf16" if device.type == "cuda" else "float32"
    return precision


def seed_of(random_state: Any) -> int:
    """An integer seed from None, an integer, a RandomState or a Generator; global state is only ever read."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state={random_state} must not be negative.")
        return int(random_state)
    from covshift._checks import as_generator

    return int(as_generator(random_state).integers(2**31 - 1))


def first_rows(rows: TensorRows | LoaderRows, labelled: bool, device: torch.device) -> RowSet:
    """A few rows to see shapes by."""
    generator = torch.Generator(device).manual_seed(0)
    if isinstance(rows, TensorRows):
        return rows.draw(generator)[:_PROBE_ROWS]
    for batch in rows.batches(torch.Generator().manual_seed(0), labelled):
        return batch[:_PROBE_ROWS]
    raise ValueError(f"the {rows.name} loader gave no mini-batch; there is nothing to learn from.")


def check_f(f: nn.Module, loss: NetLoss, source: RowSet, y: Tensor | None) -> int:
    """f's number of outputs; labels of a classification loss must be 0..K-1, and it gives one loss a row."""
    output = _probe(f, source.X, "f")
    assert source.y is not None
    if loss.classification:
        if output.ndim != 2:
            raise ValueError(f"f gives outputs of shape {tuple(output.shape)}; a classifier gives (rows, classes).")
        check_labels(source.y if y is None else y, int(output.shape[1]))
    loss(output, source.y)
    return 1 if output.ndim == 1 else int(output.shape[1])


def check_outputs(f: nn.Module, rows: Tensor, n_outputs: int) -> None:
    """A network handed to an estimator has an output a class, or one for regression."""
    p = next(f.parameters(), rows)
    output = _probe(f, rows.to(p.device, p.dtype), "f")
    found = 1 if output.ndim == 1 else int(output.shape[-1])
    if found != n_outputs:
        raise ValueError(f"f has {found} outputs, but these data need {n_outputs}.")


def check_labels(y: Tensor, n_classes: int) -> None:
    """Class numbers 0..K-1."""
    if y.is_floating_point():
        raise ValueError(
            f"labels are of type {y.dtype}; a classification loss needs class numbers 0..{n_classes - 1}."
        )
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= n_classes:
        raise ValueError(
            f"labels run from {low} to {high}, but f has {n_classes} outputs and needs classes 0..{n_classes - 1}; "
            "encode the labels, or give f as many outputs as there are classes."
        )


def check_g(g: nn.Module, source: RowSet, target: RowSet) -> None:
    """Source and target rows alike, and one number a row out of g."""
    if source.X.shape[1:] != target.X.shape[1:]:
        raise ValueError(
            f"source rows have shape {tuple(source.X.shape[1:])}, target rows {tuple(target.X.shape[1:])}; "
            "both samples need the same columns (or image size)."
        )
    output = _probe(g, source.X, "g")
    rows = len(source.X)
    if output.shape not in ((rows,), (rows, 1)):
        raise ValueError(
            f"g gives outputs of shape {tuple(output.shape)} for {rows} rows; a weight model ends in one "
            "number a row (nn.Linear(width, 1))."
        )


def _probe(network: nn.Module, X: Tensor, name: str) -> Tensor:
    training = network.training
    network.eval()
    try:
        with torch.no_grad():
            output = network(X)
    except RuntimeError as error:
        raise ValueError(f"{name} does not take rows of shape {tuple(X.shape[1:])}, {X.dtype}: {error}") from error
    finally:
        network.train(training)
    return output
