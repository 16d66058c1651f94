"""`python -m benchmarks`: run rows, print the table, write results/benchmarks.csv."""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks._record import Record

# name -> module:function. A function returns a Record or a list of them.
ROWS = {
    "full-search": "benchmarks.bench_onestep:full_search",
    "default-fit": "benchmarks.bench_onestep:default_fit",
    "ulsif-search": "benchmarks.bench_ulsif:search",
    "ulsif-growth": "benchmarks.bench_ulsif:growth_and_memory",
    "ulsif-competitors": "benchmarks.bench_ulsif:competitors",
    "kliep": "benchmarks.bench_kliep:against_frank_wolfe",
    "nn-f-epoch": "benchmarks.bench_nn:f_epoch",
    "nn-g-epochs": "benchmarks.bench_nn:g_epochs",
    "import": "benchmarks.bench_import:import_time",
}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_COLUMNS = (
    "row",
    "work",
    "must",
    "aim",
    "measured",
    "unit",
    "reached",
    "note",
    "command",
    "versions",
    "machine",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="rows to run (default: all)")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks.csv"))
    parser.add_argument("--child", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        print("\n".join(ROWS))
        return 0
    if options.child:
        return _child(*options.child)
    unknown = sorted(set(options.names) - set(ROWS))
    if unknown:
        parser.error(f"unknown rows {', '.join(unknown)}; known are {', '.join(ROWS)}")
    failed = []
    for name in options.names or ROWS:
        print(f"{name} ...", flush=True)
        records = _run(name)
        if records is None:
            failed.append(name)
            continue
        _merge(options.out, name, records)
        for record in records:
            print("  " + _line(record), flush=True)
    print(f"\n{_table(options.out)}\n{options.out}")
    if failed:
        print(f"did not finish: {', '.join(failed)}")
    return int(bool(failed))


def _run(name: str) -> list[Record] | None:
    """The row in a process of its own, where BLAS saw one thread before it was loaded; None where it broke."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.json"
        command = [sys.executable, "-m", "benchmarks", "--child", name, str(file)]
        done = subprocess.run(command, env=os.environ | dict.fromkeys(_THREADS, "1"), check=False)
        if done.returncode:
            return None
        return [Record(**record) for record in json.loads(file.read_text())]


def _child(name: str, file: str) -> int:
    module, function = ROWS[name].split(":")
    records = getattr(importlib.import_module(module), function)()
    records = [records] if isinstance(records, Record) else records
    _require_one_thread()
    Path(file).write_text(json.dumps([asdict(record) for record in records]))
    return 0


def _require_one_thread() -> None:
    from threadpoolctl import threadpool_info

    pools = {pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    if any(threads != 1 for threads in pools.values()):
        raise RuntimeError(f"BLAS ran on more than one thread: {pools}")


def _merge(path: Path, name: str, records: list[Record]) -> None:
    """Put this row's records in the place of its old ones; the file is written whole or not at all."""
    old = []
    if path.exists():
        with path.open(newline="") as stream:
            old = [line for line in csv.DictReader(stream) if line["row"] != name]
    about = {"row": name, "command": f"python -m benchmarks {name}", "versions": versions(), "machine": _machine()}
    new = [asdict(record) | {"reached": record.reached, "measured": f"{record.measured:.4g}"} for record in records]
    order = list(ROWS)
    lines = old + [line | about for line in new]
    lines.sort(key=lambda line: order.index(line["row"]) if line["row"] in order else len(order))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    with partial.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, _COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({key: "" if line[key] is None else line[key] for key in _COLUMNS} for line in lines)
    os.replace(partial, path)


def versions() -> str:
    names = ("covshift", "numpy", "scipy", "scikit-learn")
    return " ".join(
        [f"python {platform.python_version()}", *(f"{name} {importlib.metadata.version(name)}" for name in names)]
    )


def _machine() -> str:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        text = info.read_text()
        keys = {line.split(":")[0].strip(): line.split(":")[1].strip() for line in text.splitlines() if ":" in line}
        model = f"{keys.get('model name', model)} (family {keys.get('cpu family')}, model {keys.get('model')})"
    return f"{model}, {os.cpu_count()} cores, {platform.system()}"


def _line(record: Record) -> str:
    return f"{record.work}: {record.measured:.3g} {record.unit} ({record.reached}) {record.note}"


def _table(path: Path) -> str:
    with path.open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    shown = ("work", "must", "aim", "measured", "unit", "reached")
    width = {key: max(len(key), *(len(line[key]) for line in lines)) for key in shown}
    rows = [dict(zip(shown, shown, strict=True)), *lines]
    return "\n".join("  ".join(row[key].ljust(width[key]) for key in shown).rstrip() for row in rows)


if __name__ == "__main__":
    sys.exit(main())
