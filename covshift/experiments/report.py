"""From rows to tables, a Markdown page and figures."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from covshift.experiments.reports.plain import plain_tables
from covshift.experiments.rows import Row, atomic_write, read_rows, read_settings
from covshift.experiments.tables import Table

__all__ = ["folders_with_rows", "report_figures", "report_tables", "write_report"]

# Where each experiment's tables and figures are made: (module, tables, figures); imported only when asked for.
# Others get a plain table and no figure.
MAKERS = {
    "toy": ("covshift.experiments.reports.toy", "toy_tables", "toy_figures"),
    "benchmark": ("covshift.experiments.reports.benchmark", "benchmark_tables", "benchmark_figures"),
    "panel": ("covshift.experiments.reports.panel", "panel_tables", "panel_figures"),
    "images": ("covshift.experiments.reports.images", "images_tables", "images_figures"),
    "theory": ("covshift.experiments.theory", "theory_tables", "theory_figures"),
}


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
    about, rows = read_settings(folder), _rows(folder)
    make: Callable[..., list[Table]] | None = _maker(about, folder, 1)
    return plain_tables(rows, about) if make is None else make(rows, about)


def report_figures(folder: Path) -> list[Path]:
    """The figures of one folder of rows, beside them; the files."""
    about, rows = read_settings(folder), _rows(folder)
    make: Callable[..., list[Path]] | None = _maker(about, folder, 2)
    return [] if make is None else make(rows, folder)


def _rows(folder: Path) -> list[Row]:
    rows = read_rows(folder)
    if not rows:
        raise ValueError(f"{folder / 'rows.csv'} has no complete trial yet: continue it with --resume")
    return rows


def _maker(about: Mapping[str, Any], folder: Path, which: int) -> Callable[..., Any] | None:
    """By the experiment's name in the settings, else by the folder's."""
    names = MAKERS.get(about["settings"].get("experiment", folder.resolve().name))
    return None if names is None else getattr(importlib.import_module(names[0]), names[which])


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
