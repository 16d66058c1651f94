"""A file is handed out only when it is the published one; where it is missing, the error says what to do."""

from __future__ import annotations

import errno
import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from covshift.datasets import _fetch
from covshift.datasets._download import DownloadPolicy
from covshift.datasets._fetch import fetch_file, find_file, read_file, verify_bytes
from covshift.datasets._parse import values_digest
from covshift.datasets._registry import DataFile, Source, data_file, data_files
from covshift.exceptions import DataVerificationError

QUICK = DownloadPolicy(timeout=2.0, attempts=2, backoff=0.001)
BODY = b"some,table\n1,2\n" * 500


def entry_of(*sources: Source, body: bytes = BODY, **more) -> DataFile:
    sha = hashlib.sha256(body).hexdigest()
    return DataFile("uci/some/table.csv", "some", len(body), 500, sha, "checksum", "MIT", sources, **more)


def archive_of(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, body in members.items():
            archive.writestr(f"folder/{name}.csv", body)
    return out.getvalue()


def test_a_download_lands_in_the_named_folder_and_leaves_nothing_else(server, empty_folders):
    server.files["/t"] = BODY
    path = fetch_file(entry_of(Source(f"{server.address}/t")), QUICK)
    assert path == empty_folders[0] / "uci/some/table.csv"
    assert path.read_bytes() == BODY
    assert [file.name for file in path.parent.iterdir()] == ["table.csv"]


def test_a_member_is_taken_out_of_its_archive(server, empty_folders):
    server.files["/z"] = archive_of(other=b"no", table=BODY)
    path = fetch_file(entry_of(Source(f"{server.address}/z", "table.csv")), QUICK)
    assert path.read_bytes() == BODY
    assert [file.name for file in path.parent.iterdir()] == ["table.csv"]


@pytest.mark.parametrize(
    ("archive", "message"),
    [(b"PK\x03\x04 broken", "not a whole zip archive"), (archive_of(other=b"no"), "holds no file table.csv")],
)
def test_a_wrong_archive_is_a_verification_error(server, empty_folders, archive, message):
    server.files["/z"] = archive
    with pytest.raises(DataVerificationError, match=message):
        fetch_file(entry_of(Source(f"{server.address}/z", "table.csv")), QUICK)


def test_the_second_address_serves_when_the_first_does_not(server, empty_folders):
    server.files["/t"] = BODY
    entry = entry_of(Source(f"{server.address}/gone"), Source(f"{server.address}/t"))
    assert fetch_file(entry, QUICK).read_bytes() == BODY


def test_a_changed_file_is_refused_and_not_kept(server, empty_folders):
    server.files["/t"] = BODY.replace(b"1,2", b"1,3")
    with pytest.raises(DataVerificationError, match=r"its SHA-256 is \w{64} .* expected \w{64}"):
        fetch_file(entry_of(Source(f"{server.address}/t")), QUICK)
    assert list((empty_folders[0] / "uci/some").iterdir()) == []


def test_an_interrupted_download_is_continued_by_the_next_call(server, empty_folders):
    server.files["/t"] = BODY
    server.troubles = ["cut", 404]
    entry = entry_of(Source(f"{server.address}/t"))
    with pytest.raises(FileNotFoundError):
        fetch_file(entry, QUICK)
    assert find_file(entry) is None
    assert fetch_file(entry, QUICK).read_bytes() == BODY
    assert server.ranges[-1] == f"bytes={len(BODY) // 2}-"


def test_a_rotten_beginning_is_thrown_away_and_fetched_anew(server, empty_folders):
    server.files["/t"] = BODY
    server.troubles = ["cut", 404]
    entry = entry_of(Source(f"{server.address}/t"))
    with pytest.raises(FileNotFoundError):
        fetch_file(entry, QUICK)
    (part,) = (empty_folders[0] / "uci/some").iterdir()
    part.write_bytes(b"x" * part.stat().st_size)
    assert fetch_file(entry, QUICK).read_bytes() == BODY


def test_a_folder_that_cannot_be_written_gives_way_to_the_cache(server, empty_folders):
    data, cache = empty_folders
    data.write_text("a file stands where the folder should be")
    server.files["/t"] = BODY
    assert fetch_file(entry_of(Source(f"{server.address}/t")), QUICK) == cache / "uci/some/table.csv"


def test_a_read_only_folder_gives_way_to_the_cache(server, empty_folders, monkeypatch):
    data, cache = empty_folders
    make = _fetch.tempfile.TemporaryFile

    def read_only(dir):
        if str(dir).startswith(str(data)):
            raise OSError(errno.EROFS, "Read-only file system")
        return make(dir=dir)

    monkeypatch.setattr(_fetch.tempfile, "TemporaryFile", read_only)
    server.files["/t"] = BODY
    assert fetch_file(entry_of(Source(f"{server.address}/t")), QUICK) == cache / "uci/some/table.csv"


def test_no_writable_folder_is_an_error_that_names_both(empty_folders):
    for folder in empty_folders:
        folder.write_text("in the way")
    with pytest.raises(PermissionError, match=r"data/uci/some.*cache/uci/some.*Set COVSHIFT_DATA"):
        fetch_file(entry_of(Source("http://127.0.0.1:9/t")), QUICK)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_a_full_disk_is_named_with_the_way_out(server, empty_folders):
    server.files["/t"] = BODY
    entry = entry_of(Source(f"{server.address}/t"))
    folder = empty_folders[0] / "uci/some"
    folder.mkdir(parents=True)
    crc = _fetch.zlib.crc32(entry.sources[0].url.encode())
    (folder / f".table.csv.{crc:08x}.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device while writing .*COVSHIFT_DATA") as caught:
        fetch_file(entry, QUICK)
    assert caught.value.errno == errno.ENOSPC
    assert find_file(entry) is None


def test_an_unfinished_extraction_leaves_no_file(server, empty_folders, monkeypatch):
    server.files["/z"] = archive_of(table=BODY)

    def fail(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_fetch.os, "replace", fail)
    entry = entry_of(Source(f"{server.address}/z", "table.csv"))
    with pytest.raises(OSError, match="No space left"):
        fetch_file(entry, QUICK)
    assert [file.suffix for file in (empty_folders[0] / "uci/some").iterdir()] == [".part"]


def test_without_a_network_the_error_names_file_address_and_place(server, empty_folders):
    entry = entry_of(Source(f"{server.address}/gone"), Source(f"{server.address}/z", "table.csv"))
    with pytest.raises(FileNotFoundError) as caught:
        fetch_file(entry, QUICK)
    text = str(caught.value)
    for part in (
        "uci/some/table.csv",
        f"{server.address}/gone",
        f"{server.address}/z (member table.csv)",
        str(empty_folders[0] / "uci/some/table.csv"),
        str(empty_folders[1] / "uci/some/table.csv"),
        "COVSHIFT_DATA",
    ):
        assert part in text


def test_downloads_can_be_switched_off(empty_folders):
    with pytest.raises(FileNotFoundError, match="downloads are switched off.*wine.*winequality-red"):
        read_file("uci/wine-quality/winequality-red.csv", download_if_missing=False)


def test_a_file_without_an_address_says_why(empty_folders):
    with pytest.raises(FileNotFoundError, match="withdrawn by its publisher"):
        read_file("uci/pima-diabetes/pima-indians-diabetes.data")


def test_an_unknown_file_names_the_nearest(empty_folders):
    with pytest.raises(ValueError, match="did you mean 'libsvm/australian'"):
        read_file("libsvm/australien")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-100], "it ends after 87676 of 87776 bytes"),
        (lambda data: data.replace(b"0.02", b"0.03", 1), "its SHA-256 is"),
    ],
)
def test_a_wrong_local_file_is_an_error_and_stays(data_folder, empty_folders, change, message):
    file = "uci/sonar/sonar.all-data"
    path = empty_folders[0] / file
    path.parent.mkdir(parents=True)
    wrong = change((data_folder / file).read_bytes())
    path.write_bytes(wrong)
    with pytest.raises(DataVerificationError, match=message) as caught:
        read_file(file)
    assert str(path) in str(caught.value)
    assert "Delete it" in str(caught.value)
    assert path.read_bytes() == wrong


def test_the_named_folder_is_read_before_the_cache(empty_folders):
    data, cache = empty_folders
    entry = entry_of()
    (cache / "uci/some").mkdir(parents=True)
    (cache / entry.file).write_bytes(BODY)
    assert find_file(entry) == cache / entry.file
    (data / "uci/some").mkdir(parents=True)
    (data / entry.file).write_bytes(BODY)
    assert find_file(entry) == data / entry.file


def test_cache_folder_follows_the_platform(monkeypatch):
    monkeypatch.setattr(_fetch.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert _fetch.cache_folder() == Path("/xdg/covshift")
    monkeypatch.setattr(_fetch.sys, "platform", "darwin")
    assert _fetch.cache_folder() == Path.home() / "Library" / "Caches" / "covshift"
    monkeypatch.setattr(_fetch.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert _fetch.cache_folder() == Path("/local/covshift")


def test_values_are_accepted_in_another_print_and_refused_when_changed():
    body = b"2.000000  1:33.599998 2:0.000000\n4.000000  1:1.5 2:7\n"
    entry = entry_of(body=body, values=values_digest(body))
    verify_bytes(entry, b"2 1:33.6\r\n4 1:1.500000 2:7.0\r\n", "a copy")
    with pytest.raises(DataVerificationError, match="its numbers have the digest"):
        verify_bytes(entry, b"2 1:33.6\n4 1:1.5 2:8\n", "a copy")
    with pytest.raises(DataVerificationError, match="line 2 is not"):
        verify_bytes(entry, b"2 1:33.6\n<html>\n", "a copy")


def test_every_file_at_hand_is_the_published_one(data_folder):
    for entry in data_files():
        body = (data_folder / entry.file).read_bytes()
        verify_bytes(entry, body, entry.file)
        with pytest.raises(DataVerificationError):
            verify_bytes(entry, body[: len(body) // 2], entry.file)


def test_every_file_has_an_address_or_a_reason_to_have_none():
    for entry in data_files():
        assert len(entry.sha256) == 64
        assert (entry.values is not None) == (entry.verified == "values")
        assert bool(entry.sources) != bool(entry.note or entry.derived_from)
        assert all(source.url.startswith("http") for source in entry.sources)
    bike = data_file("uci/bike-sharing/day.csv")
    assert {source.member for source in bike.sources} == {"day.csv"}
