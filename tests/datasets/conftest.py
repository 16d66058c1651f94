"""Where the tests of the data find files, and a server that misbehaves on request."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


def _folder(variable: str) -> Path:
    named = os.environ.get(variable)
    if not named or not Path(named).is_dir():
        pytest.skip(f"{variable} is not set to a folder: the real files are not on this machine")
    return Path(named)


@pytest.fixture
def data_folder() -> Path:
    return _folder("COVSHIFT_DATA")


@pytest.fixture
def panel_folder(data_folder: Path) -> Path:
    pytest.importorskip("pandas")
    return _folder("COVSHIFT_PANEL")


@pytest.fixture
def empty_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A data folder and a cache folder that hold nothing, and no other place to look."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    monkeypatch.setenv("COVSHIFT_DATA", str(data))
    monkeypatch.setattr("covshift.datasets._fetch.cache_folder", lambda: cache)
    return data, cache


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        state = self.server.state
        state.ranges.append(self.headers.get("Range"))
        trouble = state.troubles.pop(0) if state.troubles else "none"
        body = state.files.get(self.path)
        if body is None or isinstance(trouble, int):
            return self._answer(trouble if isinstance(trouble, int) else 404, b"")
        start = 0
        wanted = self.headers.get("Range")
        if wanted and trouble != "no ranges":
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                return self._answer(416, b"", {"Content-Range": f"bytes */{len(body)}"})
        claimed = {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"} if start else {}
        if trouble == "other range":
            claimed = {"Content-Range": f"bytes 1-{len(body) - 1}/{len(body)}"}
        sent = body[start : start + len(body[start:]) // 2] if trouble == "cut" else body[start:]
        return self._answer(206 if start else 200, sent, claimed, length=len(body) - start)

    def _answer(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, length: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        pass


class Server:
    """Files by path; `troubles` are used up one a request: a status, "cut", "no ranges" or "other range"."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.troubles: list[Any] = []
        self.ranges: list[str | None] = []


@pytest.fixture
def server() -> Iterator[Server]:
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    state = Server(f"http://127.0.0.1:{http.server_port}")
    vars(http)["state"] = state
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    http.shutdown()
    thread.join()
    http.server_close()
