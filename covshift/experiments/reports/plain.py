"""The table of any experiment: mean, SD and time of every method on every problem and metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from covshift.experiments.reports.values import mean_sd
from covshift.experiments.rows import Row
from covshift.experiments.tables import Table

__all__ = ["plain_tables"]


def plain_tables(rows: Sequence[Row], about: Mapping[str, Any]) -> list[Table]:
    name = str(about["settings"].get("experiment", "rows"))
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        extra = tuple(str(row.extra[column]) for column in about["columns"][6:])
        groups.setdefault((row.problem, row.method, row.metric, *extra), []).append(row)
    lines = []
    for key, group in groups.items():
        values = np.array([row.value for row in group])
        seconds = np.mean([row.seconds for row in group])
        lines.append([*key, str(len(group)), mean_sd(values, 4), f"{seconds:.3g}"])
    header = ["problem", "method", "metric", *about["columns"][6:], "rows", "mean (SD)", "seconds"]
    return [Table(f"{name}/main", f"{name}: mean over seeds", header, lines)]
