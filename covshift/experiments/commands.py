"""What the commands do: from parsed options to (exit code, answer for machines), printing for people on the way."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from covshift.exceptions import MissingExtraError
from covshift.experiments.tables import Table

__all__ = ["data", "demo", "report", "reproduce"]

Answer = tuple[int, Any]
KERNEL_EXPERIMENTS = ("toy", "benchmark", "panel")
# Options that an experiment does not have; giving one is refused.
NOT_FOR = {
    "toy": ("device", "scale", "angles"),
    "benchmark": ("device", "scale", "angles"),
    "panel": ("device", "scale", "angles"),
    "images": ("jobs",),
    "theory": ("methods", "datasets", "device", "scale", "angles"),
}


def demo(options: argparse.Namespace) -> Answer:
    from covshift.experiments.demo import run_demo

    made = run_demo(options.out, say=_say(options))
    if not options.json:
        print(made.table.terminal(sys.stdout.isatty()))
        print(f"\nThe figures are {' and '.join(map(str, made.files))} ({made.seconds:.1f} s).")
    return 0, {"table": made.table.as_dict(), "files": [str(f) for f in made.files], "seconds": made.seconds}


def reproduce(options: argparse.Namespace) -> Answer:
    name = options.experiment
    for option in NOT_FOR[name]:
        if getattr(options, option) is not None:
            raise ValueError(f"--{option} is not an option of `covshift reproduce {name}`; leave it out")
    mode = "resume" if options.resume else "overwrite" if options.overwrite else "new"
    # A share of the images gives other figures than the paper's: such rows never lie beside the full ones.
    out = Path(options.out) / (f"scale-{options.scale:g}" if options.scale not in (None, 1.0) else "")
    folder = out / name
    if name in KERNEL_EXPERIMENTS:
        _run_kernel(options, folder, mode)
    elif name == "theory":
        from covshift.experiments.runner import usable_cores
        from covshift.experiments.theory import TRIALS, run_theory

        run_theory(folder, trials=options.trials or TRIALS, jobs=options.jobs or usable_cores(), mode=mode)
    else:
        _run_images(options, out, mode)
    return _show(options, [folder])


def _run_kernel(options: argparse.Namespace, folder: Path, mode: str) -> None:
    from covshift.experiments.demo import paper_figures
    from covshift.experiments.grid import load_experiment
    from covshift.experiments.runner import run_experiment

    experiment = load_experiment(
        options.experiment, trials=options.trials, methods=options.methods, problems=options.datasets
    )
    run_experiment(experiment, folder, jobs=options.jobs, mode=mode)
    if options.experiment == "toy":
        try:
            paper_figures(folder)
        except MissingExtraError as missing:
            _say(options)(f"no figures: {missing}")


def _run_images(options: argparse.Namespace, out: Path, mode: str) -> None:
    try:
        from covshift.experiments.images import run_images
    except ImportError as error:
        if not (error.name or "").startswith("torch"):
            raise
        raise MissingExtraError("images need torch, which is not installed: pip install 'covshift[nn]'") from error
    given = {key: getattr(options, key) for key in ("trials", "methods", "datasets", "device", "scale", "angles")}
    run_images(
        out=out, mode=mode, say=_say(options), **{key: value for key, value in given.items() if value is not None}
    )


def report(options: argparse.Namespace) -> Answer:
    from covshift.experiments.report import folders_with_rows

    return _show(options, folders_with_rows(Path(options.folder)), options.into)


def _show(options: argparse.Namespace, folders: Sequence[Path], into: str | None = None) -> Answer:
    """Tables on the terminal, `report.md` and figures beside the rows, and a page's tables filled if asked for."""
    from covshift.experiments.report import report_figures, report_tables, write_report

    tables: list[Table] = []
    files: list[Path] = []
    for folder in folders:
        own = report_tables(folder)
        tables += own
        files.append(write_report(folder, own))
        try:
            files += report_figures(folder)
        except MissingExtraError as missing:
            _say(options)(f"no figures: {missing}")
    if into is not None:
        files.append(_fill(Path(into), tables))
    if not options.json:
        print("\n\n".join(table.terminal(sys.stdout.isatty()) for table in tables))
        print(f"\nWritten: {', '.join(map(str, files))}")
    return 0, {"tables": [table.as_dict() for table in tables], "files": [str(f) for f in files]}


def _fill(page: Path, tables: Sequence[Table]) -> Path:
    from covshift.experiments.rows import atomic_write
    from covshift.experiments.tables import put_tables_into

    if not page.is_file():
        raise FileNotFoundError(f"--into {page}: there is no such page")
    text, filled = put_tables_into(page, tables)
    if not filled:
        names = ", ".join(table.name for table in tables)
        raise ValueError(f"--into {page}: it has no `<!-- table NAME -->` of these tables: {names}")
    atomic_write(page, text)
    return page


def data(options: argparse.Namespace) -> Answer:
    from covshift.datasets import FileRecord, fetch_all, list_files, verify_all

    def line(record: FileRecord) -> None:
        if not options.json:
            megabytes = f"{record.size / 1e6:.2f} MB"
            print(f"{record.status:<9} {record.file:<55} {megabytes:>10}  {record.message}".rstrip(), flush=True)

    only = options.files or None
    if options.action == "fetch":
        records = fetch_all(only, report=line)
    else:
        records = list_files(only) if options.action == "list" else verify_all(only)
        for record in records:
            line(record)
    failed = any(record.status in ("failed", "wrong") for record in records)
    return int(failed), [asdict(record) for record in records]


def _say(options: argparse.Namespace) -> Any:
    """Words on the way go to stderr, so that stdout is the answer."""
    return lambda text: print(text, file=sys.stderr, flush=True)
