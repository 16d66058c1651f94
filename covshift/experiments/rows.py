"""Raw rows of an experiment: one CSV that survives a kill, and its settings in a JSON beside it."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from covshift.exceptions import ResumeMismatchError
from covshift.experiments.provenance import provenance

__all__ = ["COLUMNS", "Row", "RowWriter", "atomic_write", "read_rows", "read_settings"]

COLUMNS = ("problem", "method", "seed", "metric", "value", "seconds")
Key = tuple[str, ...]

_NOT_ALLOWED = "it may not be written or read; change its permissions or choose another --out"
_NOT_A_FOLDER = "part of the path is a file, not a folder; choose another --out"
_SENTENCES = {
    errno.ENOSPC: "the disk is full; rows written so far are kept: make room and continue with --resume",
    errno.EDQUOT: "the disk quota is used up; rows written so far are kept: make room, continue with --resume",
    errno.EROFS: "the file system is read-only; choose another --out",
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.ENOTDIR: _NOT_A_FOLDER,
    errno.EEXIST: _NOT_A_FOLDER,
    errno.ENOENT: "there is no such file or folder; check the path",
}


@dataclass(frozen=True)
class Row:
    """One number: what `method` reached on `problem` with `seed`, and how long it took.

    `extra` holds the values of an experiment's own columns, which are fixed when its file is made.
    """

    problem: str
    method: str
    seed: int
    metric: str
    value: float
    seconds: float
    extra: Mapping[str, str | int | float] = field(default_factory=dict)

    def cells(self, extra: Sequence[str]) -> list[str]:
        # repr of a float is the shortest text that reads back as the same float.
        own = [self.problem, self.method, str(self.seed), self.metric, repr(float(self.value)), f"{self.seconds:.4g}"]
        return own + [_cell(self.extra[name]) for name in extra]


def _cell(value: str | int | float) -> str:
    return repr(float(value)) if isinstance(value, float) else str(value)


def _sort_key(row: Row) -> tuple[str, int, str, str]:
    return row.problem, row.seed, row.method, row.metric


class RowWriter:
    """Appends whole trials to `<folder>/rows.csv`; a kill loses at most the trial in hand.

    A trial is what `trial_by` names, by default one (problem, seed) with all its methods: `add` takes its rows at
    once, writes them in one piece and waits until they are on the disk. A torn line, or a trial with another number
    of rows than `trial_rows` says, is dropped when the file is continued. `finish` sorts the rows by problem, seed,
    method and metric, so that any number of processes gives the same file (the seconds apart).

    Parameters
    ----------
    folder : where `rows.csv` and `settings.json` live; made if it is not there
    settings : what decides the numbers, as JSON; `trials` in it may grow when the file is continued, nothing else may
    trial_rows : rows of a complete trial, one number for all problems or one a problem
    mode : "new" refuses existing rows, "resume" continues them, "overwrite" starts anew
    extra : names of further columns
    trial_by : columns whose values together name a trial
    code : parts of the package whose text decides the numbers (see `provenance`)
    """

    def __init__(
        self,
        folder: Path | str,
        settings: Mapping[str, Any],
        trial_rows: int | Mapping[str, int],
        *,
        mode: str = "new",
        extra: Sequence[str] = (),
        trial_by: Sequence[str] = ("problem", "seed"),
        code: Sequence[str] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.path = self.folder / "rows.csv"
        self.extra = tuple(extra)
        self._trial_rows = trial_rows
        self._trial_by = tuple(trial_by)
        about: dict[str, Any] = {
            "settings": json.loads(json.dumps(dict(settings))),
            "columns": [*COLUMNS, *self.extra],
            "trial_rows": trial_rows if isinstance(trial_rows, int) else dict(trial_rows),
            "trial_by": list(self._trial_by),
            **provenance(code),
        }
        kept = self._open(about, mode)
        self.done: set[Key] = {self.key(row) for row in kept}
        self._rows = kept
        atomic_write(self.folder / "settings.json", json.dumps(about, indent=2) + "\n")
        atomic_write(self.path, _as_csv(kept, self.extra))
        with _told(self.path):
            self._file = open(self.path, "ab", buffering=0)

    def _open(self, about: dict[str, Any], mode: str) -> list[Row]:
        """The rows to continue from; refuses what must not be touched."""
        with _told(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        if mode == "overwrite" or not self.path.exists():
            return []
        if mode == "new":
            raise FileExistsError(
                f"{self.path} already has rows and was not touched: continue them with --resume, "
                "replace them with --overwrite, or choose another --out"
            )
        before = read_settings(self.folder)
        _refuse_differences(before, about, self.path)
        about["commits"] = sorted({*before["commits"], *about["commits"]})
        return read_rows(self.folder)

    def key(self, row: Row) -> Key:
        """What names the row's trial."""
        return _key(row, self._trial_by)

    def add(self, rows: Iterable[Row]) -> None:
        """Append one whole trial and wait until it is on the disk."""
        rows = sorted(rows, key=_sort_key)
        keys = {self.key(row) for row in rows}
        if len(keys) != 1:
            raise ValueError(f"add takes the rows of one trial, got {len(keys)} trials: {sorted(keys)[:3]}")
        expected = _rows_expected(self._trial_rows, rows[0].problem)
        if len(rows) != expected:
            raise ValueError(f"trial {keys.pop()} has {len(rows)} rows where trial_rows says {expected}")
        data = _as_csv(rows, self.extra, header=False).encode()
        start = self._file.seek(0, os.SEEK_END)
        try:
            with _told(self.path):
                _write_all(self._file, data)
        except OSError:
            # Half a trial must not stay: the space of a full disk is given back.
            self._file.truncate(start)
            raise
        self.done |= keys
        self._rows.extend(rows)

    def finish(self) -> list[Row]:
        """Sort the file and return its rows."""
        self._rows.sort(key=_sort_key)
        atomic_write(self.path, _as_csv(self._rows, self.extra))
        return list(self._rows)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_rows(folder: Path | str) -> list[Row]:
    """The rows of all complete trials in `<folder>/rows.csv`, in the order of the file.

    A torn line and every row of an incomplete trial are left out.
    """
    folder = Path(folder)
    about = read_settings(folder)
    columns = about["columns"]
    with _told(folder / "rows.csv"):
        text = (folder / "rows.csv").read_bytes().decode("utf-8", errors="replace")
    body = text[: text.rfind("\n") + 1]
    lines = csv.reader(io.StringIO(body))
    header = next(lines, [])
    if header != columns:
        raise ValueError(
            f"{folder / 'rows.csv'} starts with the columns {', '.join(header) or '(none)'}; "
            f"its settings.json says {', '.join(columns)}"
        )
    rows = [_parse(line, columns, number, folder) for number, line in enumerate(lines, start=2) if line]
    counts = Counter(_key(row, about["trial_by"]) for row in rows)
    return [
        row
        for row in rows
        if counts[_key(row, about["trial_by"])] == _rows_expected(about["trial_rows"], row.problem)
    ]


def read_settings(folder: Path | str) -> dict[str, Any]:
    """What `settings.json` in a folder of rows says."""
    path = Path(folder) / "settings.json"
    try:
        about = json.loads(path.read_text())
        missing = {"settings", "columns", "trial_rows", "trial_by", "versions", "commits"} - set(about)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is not there: `covshift report` and --resume need a folder made by `covshift reproduce`"
        ) from None
    except (ValueError, TypeError):
        raise ResumeMismatchError(
            f"{path} is not a settings file of covshift (broken JSON); use --overwrite"
        ) from None
    if missing:
        raise ResumeMismatchError(f"{path} lacks {', '.join(sorted(missing))}; use --overwrite")
    return about


def _key(row: Row, trial_by: Sequence[str]) -> Key:
    return tuple(str(getattr(row, name) if name in COLUMNS else row.extra[name]) for name in trial_by)


def _rows_expected(trial_rows: int | Mapping[str, int], problem: str) -> int:
    return trial_rows if isinstance(trial_rows, int) else trial_rows.get(problem, -1)


def _parse(line: list[str], columns: Sequence[str], number: int, folder: Path) -> Row:
    if len(line) != len(columns):
        raise ValueError(
            f"{folder / 'rows.csv'}, line {number}: {len(line)} cells where {len(columns)} were expected"
        )
    problem, method, seed, metric, value, seconds, *extra = line
    try:
        return Row(
            problem, method, int(seed), metric, float(value), float(seconds),
            dict(zip(columns[len(COLUMNS) :], extra, strict=True)),
        )  # fmt: skip
    except ValueError:
        raise ValueError(f"{folder / 'rows.csv'}, line {number}: {','.join(line)!r} is not a row") from None


def _as_csv(rows: Iterable[Row], extra: Sequence[str], *, header: bool = True) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow([*COLUMNS, *extra])
    writer.writerows(row.cells(extra) for row in rows)
    return out.getvalue()


def _refuse_differences(before: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    there = {**before["settings"], **before["versions"], "columns": before["columns"], "trial_by": before["trial_by"]}
    here = {**now["settings"], **now["versions"], "columns": now["columns"], "trial_by": now["trial_by"]}
    trials = there.pop("trials", None), here.pop("trials", None)
    differences = [
        f"{name}: there {there.get(name)!r}, now {here.get(name)!r}"
        for name in sorted({*there, *here})
        if there.get(name) != here.get(name)
    ]
    if trials[0] != trials[1] and (None in trials or trials[1] < trials[0]):
        differences.append(f"trials: there {trials[0]}, now {trials[1]} (they may only grow)")
    if differences:
        raise ResumeMismatchError(
            f"{path} was made otherwise and cannot be continued ({'; '.join(differences)}); "
            "use the same settings and version, --overwrite, or another --out"
        )


def atomic_write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    with _told(path):
        try:
            with open(part, "wb", buffering=0) as file:
                _write_all(file, content.encode() if isinstance(content, str) else content)
            os.replace(part, path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def _write_all(file: io.FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
    os.fsync(file.fileno())


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turns the operating system's words about a path into one sentence with a way out."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None:
            raise
        sentence = _SENTENCES.get(problem.errno, os.strerror(problem.errno))
        raise type(problem)(f"{path}: {sentence}") from problem
