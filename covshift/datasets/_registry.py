"""The data files: where each comes from, and what makes it the published one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from covshift._checks import check_choice

__all__ = ["DataFile", "Source", "data_file", "data_files"]


@dataclass(frozen=True)
class Source:
    """A public address; `member` names the file inside it where the address is a zip archive."""

    url: str
    member: str | None = None


@dataclass(frozen=True)
class DataFile:
    """One published file.

    `verified` says what is known about the bytes: "checksum" (they equal a published checksum), "values" (no
    checksum is published; the numbers were compared with a verified original, and `values` is their digest),
    "derived" (computed here from `derived_from`), "none" (a description; the checksum is of the copy at hand).
    """

    file: str  # below the data folder, with forward slashes
    name: str
    size: int
    rows: int | None
    sha256: str
    verified: str
    license: str
    sources: tuple[Source, ...] = field(default=())
    values: str | None = None
    derived_from: str | None = None
    note: str = ""


@cache
def data_files() -> tuple[DataFile, ...]:
    """Every known file, in the order of `files.json` beside this module."""
    entries = json.loads(files("covshift.datasets").joinpath("files.json").read_text(encoding="utf-8"))
    return tuple(DataFile(sources=tuple(Source(**url) for url in entry.pop("urls")), **entry) for entry in entries)


def data_file(path: str) -> DataFile:
    """The entry of one file by its path below the data folder."""
    table = {entry.file: entry for entry in data_files()}
    return table[check_choice("file", path, table)]
