"""Early stopping by the importance-weighted loss on held-out source rows; no target label is ever needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from covshift._checks import check_count
from covshift.nn.rows import LoaderRows, RowSet, TensorRows, as_rows
from covshift.nn.seeds import derive

__all__ = ["EarlyStopping"]


@dataclass(frozen=True)
class EarlyStopping:
    """Stop after `patience` rounds without a lower sum w l / sum w on held-out source rows; keep the best round.

    w are the weights of one reference for all rounds, so that rounds compete on the same measure: the pretrained
    classifier's p / (1-p), or without pretraining g after its first training. `fraction` of the source rows are
    held out, or `rows=(X, y)` are given (a must for loaders).
    """

    patience: int = 5
    fraction: float = 0.1
    rows: Any = None

    def split(
        self, source: TensorRows | LoaderRows, seed: int, device: torch.device
    ) -> tuple[TensorRows | LoaderRows, RowSet]:
        """(rows to train on, held-out rows)."""
        check_count("EarlyStopping.patience", self.patience, 1)
        if self.rows is not None:
            held_out = as_rows(self.rows, labelled=True, batch_size=1, device=device, name="validation")
            if not isinstance(held_out, TensorRows):
                raise TypeError("EarlyStopping.rows must be arrays or tensors (X, y).")
            return source, held_out.draw(derive(seed, "validation", device=device))
        if not isinstance(source, TensorRows):
            raise ValueError("rows of a loader cannot be held out here; pass EarlyStopping(rows=(X_val, y_val)).")
        n_out = round(self.fraction * source.n)
        if not 0 < n_out < source.n:
            raise ValueError(
                f"EarlyStopping(fraction={self.fraction}) holds out {n_out} of {source.n} source rows; "
                "choose a fraction that leaves rows on both sides."
            )
        order = torch.randperm(source.n, generator=derive(seed, "validation")).to(device)
        out, kept = order[:n_out], order[n_out:]
        whole, still = source.draw, source.still
        held_out_rows = whole(derive(seed, "validation", 1, device=device))[out]
        if still:
            rows = whole(None)[kept]
            return TensorRows(lambda generator: rows, len(rows), still=True), held_out_rows
        return TensorRows(lambda generator: whole(generator)[kept], len(kept), still=False), held_out_rows
