"""From rows to tables, a Markdown page and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from covshift.experiments.reports.benchmark import benchmark_tables
from covshift.experiments.reports.panel import panel_tables
from covshift.experiments.reports.plain import plain_tables
from covshift.experiments.reports.toy import toy_tables
from covshift.experiments.rows import Row, atomic_write, read_rows, read_settings
from covshift.experiments.tables import Table

__all__ = ["folders_with_rows", "report_tables", "write_report"]

Maker = Callable[[Sequence[Row], Mapping[str, Any]], list[Table]]
MAKERS: dict[str, Maker] = {"toy": toy_tables, "benchmark": benchmark_tables, "panel": panel_tables}


def folders_with_rows(folder: Path) -> list[Path]:
    """The folder itself if it has rows, else those directly below it that have."""
    if (folder / "rows.csv").exists():
        return [folder]
    below = sorted(path.parent for path in folder.glob("*/rows.csv"))
    if not below:
        raise FileNotFoundError(
            f"{folder} has no rows.csv, nor has a folder in it: make rows with `covshift reproduce`, "
            "or give the folder that holds them"
        )
    return below


def report_tables(folder: Path) -> list[Table]:
    """The tables of one folder of rows, from its complete trials."""
    about, rows = read_settings(folder), read_rows(folder)
    if not rows:
        raise ValueError(f"{folder / 'rows.csv'} has no complete trial yet: continue it with --resume")
    return MAKERS.get(about["settings"].get("experiment", ""), plain_tables)(rows, about)


def write_report(folder: Path, tables: Sequence[Table]) -> Path:
    """`report.md` beside the rows; the file."""
    about = read_settings(folder)
    versions = ", ".join(f"{name} {v}" for name, v in about["versions"].items())
    machine = ", ".join(f"{name} {v}" for name, v in about["machine"].items())
    commits = ", ".join(about["commits"]) or "unknown"
    origin = f"Made from `rows.csv` alone. Commit: {commits}. Versions: {versions}. Machine: {machine}.\n"
    page = folder / "report.md"
    atomic_write(page, "\n".join([*[table.markdown() for table in tables], origin]))
    return page
