"""Downloads are resumed, retried, and never taken for whole when they are not."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from urllib.error import URLError

import pytest

from covshift.datasets import _download
from covshift.datasets._download import DownloadPolicy, download

QUICK = DownloadPolicy(timeout=2.0, attempts=3, backoff=0.001)
BODY = bytes(range(256)) * 1000


def test_body_arrives_whole(server, tmp_path):
    server.files["/file"] = BODY
    download(f"{server.address}/file", tmp_path / "part", QUICK)
    assert (tmp_path / "part").read_bytes() == BODY
    assert server.ranges == [None]


def test_a_part_is_continued_from_its_end(server, tmp_path):
    server.files["/file"] = BODY
    (tmp_path / "part").write_bytes(BODY[:1000])
    download(f"{server.address}/file", tmp_path / "part", QUICK)
    assert (tmp_path / "part").read_bytes() == BODY
    assert server.ranges == ["bytes=1000-"]


def test_a_body_cut_short_is_continued(server, tmp_path):
    server.files["/file"] = BODY
    server.troubles = ["cut"]
    download(f"{server.address}/file", tmp_path / "part", QUICK)
    assert (tmp_path / "part").read_bytes() == BODY
    assert server.ranges == [None, f"bytes={len(BODY) // 2}-"]


def test_a_body_always_cut_short_is_an_error_that_keeps_the_part(server, tmp_path):
    server.files["/file"] = BODY
    server.troubles = ["cut"] * 3
    with pytest.raises(ConnectionError, match=r"the connection ended after \d+ of \d+ bytes"):
        download(f"{server.address}/file", tmp_path / "part", QUICK)
    assert BODY.startswith((tmp_path / "part").read_bytes())
    assert (tmp_path / "part").stat().st_size == len(BODY) * 7 // 8


def test_a_server_without_ranges_sends_the_file_from_its_start(server, tmp_path):
    server.files["/file"] = BODY
    server.troubles = ["no ranges"]
    (tmp_path / "part").write_bytes(b"x" * 1000)
    download(f"{server.address}/file", tmp_path / "part", QUICK)
    assert (tmp_path / "part").read_bytes() == BODY


def test_another_range_than_asked_for_starts_again(server, tmp_path):
    server.files["/file"] = BODY
    server.troubles = ["other range"]
    (tmp_path / "part").write_bytes(BODY[:1000])
    download(f"{server.address}/file", tmp_path / "part", QUICK)
    assert (tmp_path / "part").read_bytes() == BODY
    assert server.ranges == ["bytes=1000-", None]


def test_a_part_that_is_already_whole_is_kept(server, tmp_path):
    server.files["/file"] = BODY
    (tmp_path / "part").write_bytes(BODY)
    download(f"{server.address}/file", tmp_path / "part", QUICK)
    assert (tmp_path / "part").read_bytes() == BODY
    assert len(server.ranges) == 1


def test_a_part_longer_than_the_file_is_replaced(server, tmp_path):
    server.files["/file"] = BODY
    (tmp_path / "part").write_bytes(BODY + b"more")
    download(f"{server.address}/file", tmp_path / "part", QUICK)
    assert (tmp_path / "part").read_bytes() == BODY


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_trouble_is_retried(server, tmp_path, status):
    server.files["/file"] = BODY
    server.troubles = [status, status]
    download(f"{server.address}/file", tmp_path / "part", QUICK)
    assert (tmp_path / "part").read_bytes() == BODY


def test_passing_trouble_that_stays_is_an_error_with_the_status(server, tmp_path):
    server.files["/file"] = BODY
    server.troubles = [503] * 3
    with pytest.raises(ConnectionError, match="/file: HTTP 503"):
        download(f"{server.address}/file", tmp_path / "part", QUICK)
    assert len(server.ranges) == 3


def test_a_refusal_is_not_retried(server, tmp_path):
    with pytest.raises(ConnectionError, match="HTTP 404"):
        download(f"{server.address}/absent", tmp_path / "part", QUICK)
    assert len(server.ranges) == 1


def test_pauses_double(server, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(_download.time, "sleep", pauses.append)
    server.troubles = [503] * 4
    with pytest.raises(ConnectionError):
        download(f"{server.address}/file", tmp_path / "part", DownloadPolicy(attempts=4, backoff=0.5))
    assert pauses == [0.5, 1.0, 2.0]


def test_a_closed_port_is_an_error_with_the_reason(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionError, match="refused"):
        download(f"http://127.0.0.1:{port}/file", tmp_path / "part", QUICK)


def test_a_silent_server_is_given_up_after_the_timeout(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file"
        with pytest.raises(ConnectionError, match="timed out"):
            download(url, tmp_path / "part", DownloadPolicy(timeout=0.05, attempts=2, backoff=0.001))


def test_without_a_network_nothing_is_retried(tmp_path, monkeypatch):
    tries = []

    def unresolved(*args, **kwargs):
        tries.append(args)
        raise URLError(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))

    monkeypatch.setattr(_download, "urlopen", unresolved)
    with pytest.raises(ConnectionError, match="Name or service not known"):
        download("http://nowhere.invalid/file", tmp_path / "part", QUICK)
    assert len(tries) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_a_full_disk_is_no_network_trouble(server, tmp_path):
    server.files["/file"] = BODY
    (tmp_path / "part").symlink_to("/dev/full")
    with pytest.raises(OSError) as caught:
        download(f"{server.address}/file", tmp_path / "part", QUICK)
    assert caught.value.errno == errno.ENOSPC
    assert not isinstance(caught.value, ConnectionError)
    assert os.path.islink(tmp_path / "part")
