"""What `covshift data list|fetch|verify` shows: one plain record a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from covshift._checks import check_choice
from covshift.datasets._fetch import fetch_file, find_file, verify_bytes
from covshift.datasets._libsvm import derive_sonar_scale
from covshift.datasets._registry import DataFile, data_files
from covshift.exceptions import DataVerificationError

__all__ = ["FileRecord", "fetch_all", "list_files", "verify_all"]


@dataclass(frozen=True)
class FileRecord:
    """One line of the inventory; `dataclasses.asdict` makes it JSON.

    `status`: "present", "missing", "derived" (computed when it is needed), "withdrawn" (no longer published, and
    nothing here reads it); after a fetch also "fetched" or "failed"; after a verification "ok" or "wrong".
    """

    file: str
    name: str
    size: int
    verified: str
    license: str
    source: str
    path: str
    status: str
    message: str = ""


def _record(entry: DataFile, status: str, message: str = "") -> FileRecord:
    path = find_file(entry)
    return FileRecord(
        file=entry.file,
        name=entry.name,
        size=entry.size,
        verified=entry.verified,
        license=entry.license,
        source=entry.sources[0].url if entry.sources else entry.derived_from or "",
        path=str(path) if path else "",
        status=status,
        message=message or entry.note,
    )


def _status(entry: DataFile) -> str:
    if find_file(entry) is not None:
        return "present"
    if entry.derived_from is not None:
        return "derived"
    return "missing" if entry.sources else "withdrawn"


def _selected(only: Iterable[str] | None) -> list[DataFile]:
    """Files by their path or by their folder ("libsvm", "uci/sonar"); None: all."""
    if only is None:
        return list(data_files())
    paths = [entry.file for entry in data_files()]
    folders = {path.rsplit("/", depth)[0] for path in paths for depth in range(1, path.count("/") + 1)}
    wanted = [check_choice("file", name.rstrip("/"), [*paths, *sorted(folders)]) for name in only]
    return [
        entry
        for entry in data_files()
        if any(entry.file == name or entry.file.startswith(f"{name}/") for name in wanted)
    ]


def list_files(only: Iterable[str] | None = None) -> list[FileRecord]:
    """Every known file and whether it is on this machine; nothing is read or downloaded."""
    return [_record(entry, _status(entry)) for entry in _selected(only)]


def fetch_all(
    only: Iterable[str] | None = None, *, report: Callable[[FileRecord], None] | None = None
) -> list[FileRecord]:
    """Download what is missing; one file that cannot be had does not stop the others.

    `report` is called with each record as soon as it is known.
    """
    records = []
    for entry in _selected(only):
        status, message = _status(entry), ""
        if status == "missing":
            try:
                fetch_file(entry)
                status = "fetched"
            except (OSError, DataVerificationError) as error:
                status, message = "failed", str(error)
        records.append(_record(entry, status, message))
        if report is not None:
            report(records[-1])
    return records


def verify_all(only: Iterable[str] | None = None) -> list[FileRecord]:
    """Compare every file that is on this machine with the published one."""
    return [_verify(entry) for entry in _selected(only)]


def _verify(entry: DataFile) -> FileRecord:
    status, path = _status(entry), find_file(entry)
    try:
        if path is not None:
            verify_bytes(entry, path.read_bytes(), str(path))
            status = "ok"
        elif entry.derived_from is not None:
            verify_bytes(entry, derive_sonar_scale(download_if_missing=False), "what is computed here")
            status = "ok"
    except FileNotFoundError:
        status = "missing"
    except (OSError, DataVerificationError) as error:
        return _record(entry, "wrong", str(error))
    return _record(entry, status)
