"""The two samples as the trainer sees them: tensors that stand still, rows drawn anew, or a loader of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

__all__ = ["Fresh", "LoaderRows", "RowSet", "TensorRows", "as_rows", "as_tensor"]


@dataclass(frozen=True)
class RowSet:
    """Rows on the device: X, labels y (None for the target) and frequencies s (None: one each)."""

    X: Tensor
    y: Tensor | None = None
    s: Tensor | None = None

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, index: Any) -> RowSet:
        return RowSet(
            self.X[index],
            None if self.y is None else self.y[index],
            None if self.s is None else self.s[index],
        )

    def with_frequencies(self, w: Tensor) -> RowSet:
        """The same rows with weights w times their frequencies in place of the frequencies."""
        return RowSet(self.X, self.y, w if self.s is None else w * self.s)

    def to(self, device: torch.device) -> RowSet:
        """The same rows on `device`, images in channels-last memory (faster convolutions)."""
        X = self.X.to(device, non_blocking=True)
        if X.ndim == 4:
            X = X.contiguous(memory_format=torch.channels_last)
        return RowSet(
            X,
            None if self.y is None else self.y.to(device, non_blocking=True),
            None if self.s is None else self.s.to(device, non_blocking=True),
        )


class Fresh:
    """Rows that are drawn anew for every epoch, such as images under a new random rotation each time.

    `draw(generator)` gets a seeded `torch.Generator` on the trainer's device and returns X, (X, y) or
    (X, y, sample_weight) of always the same number of rows.
    """

    def __init__(self, draw: Callable[[torch.Generator], Any]) -> None:
        self.draw = draw


class TensorRows:
    """Rows in memory, still or drawn anew from a generator."""

    def __init__(self, draw: Callable[[torch.Generator | None], RowSet], n: int, still: bool) -> None:
        self.draw = draw
        self.n = n
        self.still = still


class LoaderRows:
    """Mini-batches from a loader of one's own; nothing is known about it between epochs, so nothing is cached."""

    def __init__(
        self, open_epoch: Callable[[torch.Generator], Iterable[Any]], device: torch.device, name: str
    ) -> None:
        self._open_epoch = open_epoch
        self.device = device
        self.name = name
        self.still = False

    def batches(self, generator: torch.Generator, labelled: bool) -> Iterator[RowSet]:
        """One epoch's mini-batches on the device."""
        for batch in self._open_epoch(generator):
            yield _row_set(batch, labelled).to(self.device)

    def endless(self, generator: torch.Generator, labelled: bool) -> Iterator[RowSet]:
        """Epoch after epoch; a loader that cannot be started again is an error, not a silent end of g's epoch."""
        seen = 0
        while True:
            before = seen
            for batch in self.batches(generator, labelled):
                seen += 1
                yield batch
            if seen == before:
                raise ValueError(
                    f"the {self.name} loader ended after {seen} mini-batches and gave none when started again, "
                    "but g's epoch needs one for each source mini-batch; pass a DataLoader or a list of batches, "
                    "not a generator that runs out."
                )


def as_tensor(values: Any) -> Tensor:
    """A tensor of arrays, frames or tensors; whole float64 input becomes float32, the networks' usual type."""
    if isinstance(values, Tensor):
        return values.detach()
    if isinstance(values, Dataset | DataLoader):
        raise TypeError(f"expected arrays, tensors or a frame of rows, got {type(values).__name__}.")
    array = np.asarray(values)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    if array.dtype == object or array.dtype.kind in "US":
        raise ValueError(f"rows of dtype {array.dtype} cannot become a tensor; encode them as numbers first.")
    return torch.from_numpy(np.ascontiguousarray(array) if array.flags.writeable else array.copy())


def _row_set(data: Any, labelled: bool) -> RowSet:
    """RowSet of X, (X, y) or (X, y, s); what follows X in target data is ignored."""
    if isinstance(data, RowSet):
        return data
    parts = tuple(data) if isinstance(data, tuple | list) else (data,)
    if not labelled:
        return RowSet(as_tensor(parts[0]))
    if len(parts) not in (2, 3):
        raise ValueError(f"source data must be (X, y) or (X, y, sample_weight), got {len(parts)} part(s).")
    X, y, s = (*(None if part is None else as_tensor(part) for part in parts), None)[:3]
    assert X is not None
    if y is not None and not y.is_floating_point():
        y = y.long()
    if s is not None and not bool((torch.isfinite(s) & (s >= 0)).all()):
        raise ValueError("sample_weight has negative or non-finite entries; it must be finite and >= 0.")
    rows = RowSet(X, y, s)
    assert rows.y is not None
    if len(rows.y) != len(rows.X) or (rows.s is not None and len(rows.s) != len(rows.X)):
        lengths = [len(part) for part in (rows.X, rows.y, rows.s) if part is not None]
        raise ValueError(f"source data have different numbers of rows: {lengths}.")
    return rows


def as_rows(
    data: Any, *, labelled: bool, batch_size: int, device: torch.device, name: str
) -> TensorRows | LoaderRows:
    """Arrays, tensors, a `Fresh`, a Dataset or a loader, as the trainer takes them."""
    if isinstance(data, Fresh):
        probe = _row_set(data.draw(torch.Generator(device).manual_seed(0)), labelled)
        _check_not_empty(len(probe), name)
        return TensorRows(lambda gen: _row_set(data.draw(gen), labelled).to(device), len(probe), still=False)
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, DataLoader):
        return LoaderRows(lambda gen: data, device, name)
    if isinstance(data, Dataset):
        if isinstance(data, Sized):
            _check_not_empty(len(data), name)
        shuffle = not isinstance(data, IterableDataset)  # which comes in its own order
        return LoaderRows(
            lambda gen: DataLoader(data, batch_size, shuffle=shuffle, generator=gen if shuffle else None),
            device,
            name,
        )
    if not labelled and _is_table_of_numbers(data):
        data = np.asarray(data)
    if isinstance(data, tuple | np.ndarray | Tensor) or hasattr(data, "columns"):
        rows = _row_set(data, labelled).to(device)
        _check_not_empty(len(rows), name)
        _check_finite(rows, name)
        return TensorRows(lambda gen: rows, len(rows), still=True)
    if labelled and isinstance(data, Iterator):
        raise TypeError(
            f"the {name} data are a {type(data).__name__}, which is used up after one epoch; pass a list of "
            "mini-batches or a DataLoader."
        )
    if isinstance(data, Iterable):
        return LoaderRows(lambda gen: data, device, name)
    raise TypeError(f"{name} must be arrays, tensors, a Dataset, a loader or a Fresh, got {type(data).__name__}.")


def _is_table_of_numbers(data: Any) -> bool:
    """Rows as a list of lists; a list of tensors or arrays is a list of mini-batches."""
    first = data[0] if isinstance(data, list) and data else None
    return isinstance(first, list) and bool(first) and isinstance(first[0], int | float)


def _check_finite(rows: RowSet, name: str) -> None:
    for what, values in (("rows", rows.X), ("y", rows.y)):
        if values is None or not values.is_floating_point() or bool(torch.isfinite(values.sum())):
            continue  # a finite sum has finite terms and is several times cheaper than a look at each
        if not bool(torch.isfinite(values).all()):
            raise ValueError(f"the {name} {what} have NaN or infinite entries; remove or fill them first.")


def _check_not_empty(n: int, name: str) -> None:
    if n == 0:
        raise ValueError(f"the {name} data have no rows; there is nothing to learn from.")
