"""Formats, against bytes written by hand and against scikit-learn's reader."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from covshift.datasets._parse import (
    libsvm_text,
    parse_idx,
    parse_libsvm,
    read_columns,
    scale_to_unit,
    values_digest,
)

IMAGES = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(250, 256)) + bytes(range(6))
LABELS = bytes([0, 0, 8, 1, 0, 0, 0, 4, 7, 0, 9, 255])


def test_idx_images_are_in_row_order():
    images = parse_idx(IMAGES)
    assert images.dtype == np.uint8
    assert images.tolist() == [[[250, 251, 252], [253, 254, 255]], [[0, 1, 2], [3, 4, 5]]]


def test_idx_labels_and_gzip():
    assert parse_idx(LABELS).tolist() == [7, 0, 9, 255]
    assert parse_idx(gzip.compress(LABELS)).tolist() == [7, 0, 9, 255]


def test_idx_sizes_are_big_endian():
    assert parse_idx(bytes([0, 0, 8, 1, 0, 0, 1, 2]) + bytes(258)).shape == (258,)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (IMAGES[:-1], "ask for 12 bytes, the file holds 11"),
        (IMAGES + b"x", "ask for 12 bytes, the file holds 13"),
        (b"\x01" + IMAGES[1:], "two zero bytes"),
        (b"", "two zero bytes"),
        (IMAGES[:2] + b"\x0d" + IMAGES[3:], "type 0x0d"),
        (IMAGES[:9], "cannot hold 3 dimensions"),
        (bytes([0, 0, 8, 0]), "cannot hold 0 dimensions"),
    ],
)
def test_broken_idx_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        parse_idx(data)


def test_idx_arrays_can_be_written_to():
    images = parse_idx(IMAGES)
    images[0, 0, 0] = 77
    assert images[0, 0, 0] == 77
    assert parse_idx(IMAGES)[0, 0, 0] != 77


def test_libsvm_rows_by_hand():
    X, labels = parse_libsvm(b"+1 1:0.5 3:-2 \n\n-1  2:1e3\r\n")
    assert X.tolist() == [[0.5, 0.0, -2.0], [0.0, 1000.0, 0.0]]
    assert labels.tolist() == [1, -1]


@pytest.mark.parametrize("line", [b"one 1:2", b"1 1:two", b"1 1", b"1 1:2:3", b"1 0:2"])
def test_a_broken_libsvm_line_is_refused(line):
    with pytest.raises(ValueError, match="line 1|index 0"):
        parse_libsvm(line)


@pytest.mark.parametrize("name", ["australian", "breast-cancer_scale", "heart_scale", "sonar_scale.derived"])
def test_libsvm_files_read_as_scikit_learn_reads_them(data_folder, name):
    data = (data_folder / "libsvm" / name).read_bytes()
    X, labels = parse_libsvm(data)
    theirs, y = load_svmlight_file(io.BytesIO(data))
    np.testing.assert_array_equal(X, theirs.toarray())
    np.testing.assert_array_equal(labels, y)


def test_digest_ignores_the_print_and_sees_the_numbers():
    digest = values_digest(b"2 1:1000025 2:33.6 3:0\n4 1:5 2:-0.7494741\n")
    assert digest == values_digest(b"-1 1:1000025.000000 2:33.599998\r\n+1 1:5.0 2:-0.749474 3:-0.0")
    for other in (
        b"2 1:1000026 2:33.6 3:0\n4 1:5 2:-0.7494741\n",
        b"2 1:1000025 2:33.6 3:0\n4 1:5 2:-0.749475\n",
        b"4 1:1000025 2:33.6 3:0\n2 1:5 2:-0.7494741\n",
        b"4 1:5 2:-0.7494741 3:0\n2 1:1000025 2:33.6\n",
    ):
        assert digest != values_digest(other)


def test_digest_of_one_class_is_refused():
    with pytest.raises(ValueError, match="two classes"):
        values_digest(b"1 1:1\n1 1:2\n")


def test_print_and_read_agree():
    X = scale_to_unit(np.random.default_rng(0).normal(size=(30, 4)))
    assert X.min(axis=0).tolist() == [-1.0] * 4
    assert X.max(axis=0).tolist() == [1.0] * 4
    y = np.where(X[:, 0] > 0, 1, -1)
    again, labels = parse_libsvm(libsvm_text(X, y))
    np.testing.assert_array_equal(again, X)
    np.testing.assert_array_equal(labels, y)


def test_columns_of_a_quoted_table():
    table = read_columns(b'"a b";"c"\r\n1;x\r\n2;"y;z"\r\n', delimiter=";")
    assert table == {"a b": ["1", "2"], "c": ["x", "y;z"]}


def test_a_short_line_or_an_empty_table_is_refused():
    with pytest.raises(ValueError, match="line 3 has 1 fields where the header has 2"):
        read_columns(b"a,b\n1,2\n3\n")
    with pytest.raises(ValueError, match="empty"):
        read_columns(b"\n")
