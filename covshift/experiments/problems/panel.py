"""The panel: 41 tasks from real tables; members of one family, since one rule draws them all."""

from __future__ import annotations

import numpy as np

from covshift.datasets import encode_kernel_inputs, load_panel_tasks, make_panel_task
from covshift.experiments.contract import Draw


def members() -> dict[str, dict[str, str]]:
    """Every task with its columns in the rows: the kind of shift, and the half of tasks.csv that it is in."""
    return {
        task.name: {"shift": shift_of(task.rule, task.strength), "half": "odd" if task.row % 2 else "even"}
        for task in load_panel_tasks()
    }


def shift_of(rule: str, strength: str) -> str:
    """The kind of shift in the words of the report."""
    return f"{strength} selection" if rule == "select" else rule


def draw(seed: int, *, name: str, max_source: int = 2000) -> Draw:
    """One task, inputs encoded for kernel models, source rows capped (they come in random order)."""
    task = make_panel_task(name, seed)
    kept = slice(0, max_source)
    X, X_target, X_eval = encode_kernel_inputs(task.X.iloc[kept], task.X_target, task.X_eval)
    ratio = None if task.true_ratio is None else np.asarray(task.true_ratio)[kept]
    return Draw(task.kind, X, np.asarray(task.y)[kept], X_target, X_eval, np.asarray(task.y_eval), ratio)
