"""Text and binary formats of the data files, read with plain Python and NumPy."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import struct

import numpy as np
from numpy.typing import NDArray

__all__ = ["libsvm_text", "parse_idx", "parse_libsvm", "read_columns", "scale_to_unit", "values_digest"]


def parse_libsvm(data: bytes) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows `label index:value ...` as a dense array (rows, features) and the labels as printed, as integers.

    Indices count from one; an index that a line leaves out is a zero.
    """
    labels: list[int] = []
    rows: list[dict[int, float]] = []
    for number, line in enumerate(data.decode("ascii").splitlines(), start=1):
        fields = line.split()
        if not fields:
            continue
        try:
            pairs = [field.split(":") for field in fields[1:]]
            row = {int(index): float(value) for index, value in pairs}
            labels.append(int(float(fields[0])))
        except ValueError as error:
            raise ValueError(f"line {number} is not 'label index:value ...': {line[:60]!r}") from error
        if row and min(row) < 1:
            raise ValueError(f"line {number} has the feature index {min(row)}; indices count from one")
        rows.append(row)
    X = np.zeros((len(rows), max((max(row, default=0) for row in rows), default=0)))
    for i, row in enumerate(rows):
        for index, value in row.items():
            X[i, index - 1] = value
    return X, np.array(labels, dtype=np.int64)


def _canonical(value: float) -> str:
    # Six significant digits is what LIBSVM prints, and hides float32 print-outs such as 33.599998 for 33.6;
    # sample numbers (breast cancer, feature 1) are longer and keep every digit before the point.
    return f"{value + 0.0:.6g}" if abs(value) < 1e5 else f"{value:.0f}"


def values_digest(data: bytes) -> str:
    """SHA-256 of the numbers of a two-class LIBSVM file, whatever way they are printed.

    Labels count as -1 (the smaller) and +1 (the larger), values at six significant digits, zeros whether written
    or left out: `2.000000 1:33.599998 3:0` and `2 1:33.6` are the same row.
    """
    X, labels = parse_libsvm(data)
    if len(np.unique(labels)) != 2:
        raise ValueError(f"expected two classes, found the labels {np.unique(labels)[:5].tolist()}")
    signs = np.where(labels == labels.max(), "+1", "-1")
    lines = [" ".join([sign, *map(_canonical, row)]) for sign, row in zip(signs, X.tolist(), strict=True)]
    return hashlib.sha256("\n".join(lines).encode("ascii")).hexdigest()


def scale_to_unit(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """2 (x - min) / (max - min) - 1 a column, printed and read at LIBSVM's six significant digits."""
    low, high = X.min(axis=0), X.max(axis=0)
    scaled = 2 * (X - low) / (high - low) - 1
    return np.array([[float(f"{value:.6g}") for value in row] for row in scaled.tolist()])


def libsvm_text(X: NDArray[np.float64], labels: NDArray[np.int64]) -> bytes:
    """The LIBSVM print of a table: labels with a sign, zeros left out, one blank before the end of a line."""
    lines = []
    for label, row in zip(labels, X.tolist(), strict=True):
        pairs = [f"{j}:{value:.6g}" for j, value in enumerate(row, start=1) if value != 0.0]
        lines.append(" ".join([f"{label:+d}", *pairs]) + " \n")
    return "".join(lines).encode("ascii")


def read_columns(data: bytes, *, delimiter: str = ",") -> dict[str, list[str]]:
    """A delimited table with a header, as column name to the strings below it; lines of other length are an error."""
    lines = [line for line in csv.reader(io.StringIO(data.decode("utf-8")), delimiter=delimiter) if line]
    if not lines:
        raise ValueError("the table is empty: a header line was expected")
    header, *rows = lines
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"line {number} has {len(row)} fields where the header has {len(header)}")
    return {name: [row[j] for row in rows] for j, name in enumerate(header)}


def parse_idx(data: bytes) -> NDArray[np.uint8]:
    """An IDX file of unsigned bytes, gzipped or not, as an array.

    Layout: two zero bytes, the type (8: unsigned byte), the number of dimensions d, d sizes as big-endian 32-bit
    integers, then the values in C order.
    """
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if len(data) < 4 or data[:2] != b"\0\0":
        raise ValueError(f"not an IDX file: it starts with {data[:4]!r} instead of two zero bytes")
    kind, n_dims = data[2], data[3]
    if kind != 8:
        raise ValueError(f"IDX type {kind:#04x} is not read here; images and labels are unsigned bytes (0x08)")
    start = 4 + 4 * n_dims
    if n_dims == 0 or len(data) < start:
        raise ValueError(f"IDX header of {len(data)} bytes cannot hold {n_dims} dimensions")
    shape = struct.unpack(f">{n_dims}I", data[4:start])
    expected = int(np.prod(shape, dtype=np.int64))
    if len(data) - start != expected:
        raise ValueError(f"IDX sizes {shape} ask for {expected} bytes, the file holds {len(data) - start}")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape).copy()
