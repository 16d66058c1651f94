"""Bring the body of one address into a file: retried, resumed, and never taken for whole when it is not."""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

__all__ = ["DownloadPolicy", "download"]

PASSING_TROUBLE = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class DownloadPolicy:
    """How patient a download is: seconds without a byte, tries, and the first pause (doubled after each)."""

    timeout: float = 30.0
    attempts: int = 4
    backoff: float = 0.5


def download(url: str, part: Path, policy: DownloadPolicy | None = None) -> None:
    """Fetch `url` into `part`; bytes that are already in `part` are not asked for again.

    Passing troubles (a lost or silent connection, a body cut short, HTTP 429 and 5xx) are retried after 0.5, 1,
    2 ... seconds; a refusal (404) and a name that does not resolve, as without a network, are not. What arrived
    stays in `part` for the next call. Raises ConnectionError with the reason; trouble with the disk is raised as
    the OSError it is.
    """
    policy = policy or DownloadPolicy()
    reason = ""
    for attempt in range(policy.attempts):
        if attempt:
            time.sleep(policy.backoff * 2 ** (attempt - 1))
        try:
            _transfer(url, part, policy.timeout)
            return
        except HTTPError as error:
            error.close()
            reason = f"HTTP {error.code} {error.reason}"
            if error.code not in PASSING_TROUBLE:
                break
        except (URLError, TimeoutError, ConnectionError, HTTPException, ssl.SSLError) as error:
            cause = getattr(error, "reason", error)
            reason = str(cause) or type(cause).__name__
            if isinstance(cause, socket.gaierror):
                break
    raise ConnectionError(f"{url}: {reason}")


def _transfer(url: str, part: Path, timeout: float) -> None:
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "covshift"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response = urlopen(Request(url, headers=headers), timeout=timeout)
    except HTTPError as error:
        if error.code != 416:  # asked for bytes past the end: the part is whole, or is not of this file
            raise
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{start}":
            return
        part.unlink()
        response = urlopen(Request(url, headers={"User-Agent": "covshift"}), timeout=timeout)
    with response:
        _save(response, part, start)


def _save(response: HTTPResponse, part: Path, start: int) -> None:
    resumed = response.status == 206
    if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
        part.unlink()
        raise ConnectionError(f"the server answered with another range than bytes {start}-")
    length = response.headers.get("Content-Length")
    received = 0
    with part.open("ab" if resumed else "wb") as out:
        while chunk := response.read(1 << 16):
            out.write(chunk)
            received += len(chunk)
    if length is not None and received < int(length):
        raise ConnectionError(f"the connection ended after {received} of {length} bytes")
