"""The panel: by kind of shift, odd and even halves apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from covshift.experiments.figures import draw_dots
from covshift.experiments.reports.values import Values, by_problem, failed_note, values_of
from covshift.experiments.rows import Row
from covshift.experiments.stats import LEVEL, paired_p, record
from covshift.experiments.tables import Cell, Table

__all__ = ["KINDS", "panel_figures", "panel_tables"]

KINDS = ("none", "mild selection", "strong selection", "natural", "far")
OVERLAP = ("mild selection", "strong selection", "natural")
REFERENCES = ("ERM (median)", "ERM")


def panel_tables(rows: Sequence[Row], about: Mapping[str, Any]) -> list[Table]:
    methods = list(about["settings"]["methods"])
    grouped = by_problem(rows)
    tasks = [name for name in about["settings"]["problems"] if name in grouped]
    values = {name: values_of(grouped[name], methods) for name in tasks}
    shift = {name: str(grouped[name][0].extra["shift"]) for name in tasks}
    half = {name: str(grouped[name][0].extra["half"]) for name in tasks}
    reference = next((name for name in REFERENCES if name in methods), methods[0])
    tables = []
    for part in ("odd", "even", "all"):
        chosen = [name for name in tasks if part in ("all", half[name])]
        if chosen:
            tables.append(_by_kind(f"panel/{part}", part, chosen, values, shift, methods, reference))
    unweighted = next((name for name in methods if "without weights" in name), None)
    if unweighted is not None and "default" in methods:
        ours = ["default", *[m for m in methods if m.startswith("control:") and m != unweighted]]
        tables.append(_by_kind("panel/weights", "all", tasks, values, shift, ours, unweighted))
    return [*tables, _by_task(tasks, values, shift, half, methods, reference)]


def panel_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Ratios of mean losses task by task, tasks sorted by kind of shift."""
    methods = list(dict.fromkeys(row.method for row in rows))
    grouped = by_problem(rows)
    reference = next((name for name in REFERENCES if name in methods), methods[0])
    shown = [m for m in methods if m != reference and not m.startswith("control:")]
    tasks = sorted(grouped, key=lambda name: (KINDS.index(str(grouped[name][0].extra["shift"])), name))
    values = {name: values_of(grouped[name], methods) for name in tasks}
    series = {
        m: ([float(np.nanmean(v[m]) / np.nanmean(v[reference])) for v in values.values()], [0.0] * len(tasks))
        for m in shown
    }
    labels = [f"{name} ({grouped[name][0].extra['shift']})" for name in tasks]
    return [
        draw_dots(folder / "ratios.png", labels, series, f"mean loss over that of {reference}", log=True, line=1.0)
    ]


def _by_kind(
    name: str,
    part: str,
    tasks: Sequence[str],
    values: Mapping[str, Values],
    shift: Mapping[str, str],
    methods: Sequence[str],
    reference: str,
) -> Table:
    groups = [(kind, [task for task in tasks if shift[task] == kind]) for kind in KINDS]
    groups.append(("shift with overlap", [task for task in tasks if shift[task] in OVERLAP]))
    lines = []
    for kind, names in groups:
        for method in methods:
            if not names or method == reference:
                continue
            r = record({n: values[n][method] for n in names}, {n: values[n][reference] for n in names})
            worst, ratio = r.worst
            lines.append(
                [
                    kind, method, str(len(names)), f"{r.geometric_mean:.3f}",
                    str(r.wins), str(r.losses), str(r.ties), f"{worst} {ratio:.2f}",
                ]
            )  # fmt: skip
    what = {"odd": "odd rows of tasks.csv", "even": "even rows of tasks.csv", "all": "all tasks"}[part]
    return Table(
        name,
        f"Panel, {what}: mean loss over that of {reference}",
        ["shift", "method", "tasks", "geometric mean", "wins", "losses", "ties", "worst task"],
        lines,
        [
            f"Wins and losses: paired t-test over seeds at {LEVEL:.0%} after Holm's correction over the tasks of a "
            "line (one method, one kind of shift).",
            "Shift with overlap: mild and strong selection and natural shift together.",
        ],
    )


def _by_task(
    tasks: Sequence[str],
    values: Mapping[str, Values],
    shift: Mapping[str, str],
    half: Mapping[str, str],
    methods: Sequence[str],
    reference: str,
) -> Table:
    others = [m for m in methods if m != reference]
    lines: list[list[Cell | str]] = []
    for name in tasks:
        base = values[name][reference]
        cells: list[Cell | str] = []
        for method in others:
            v = values[name][method]
            both = np.isfinite(v) & np.isfinite(base)
            ratio = v[both].mean() / base[both].mean() if both.any() and base[both].mean() > 0 else np.nan
            mark = "" if paired_p(v, base) >= LEVEL else "+" if ratio < 1 else "-"
            cells.append(Cell(f"{ratio:.3f}{mark}", mark == "+"))
        lines.append([name, shift[name], half[name], str(len(base)), f"{np.nanmean(base):.4g}", *cells])
    failed = {f"{m} on {name}": values[name][m] for name in tasks for m in methods}
    return Table(
        "panel/tasks",
        f"Panel, task by task: mean loss over that of {reference}",
        ["task", "shift", "half", "seeds", f"{reference}", *others],
        lines,
        [
            f"+ better, - worse than {reference} by a paired t-test at {LEVEL:.0%}, one task at a time.",
            *failed_note(failed),
        ],
    )
