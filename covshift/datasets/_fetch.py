"""Find a data file, or download it; hand out its bytes only when they are the published ones."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

from covshift.datasets._download import DownloadPolicy, download
from covshift.datasets._parse import values_digest
from covshift.datasets._registry import DataFile, Source, data_file
from covshift.exceptions import DataVerificationError

__all__ = ["data_folders", "fetch_file", "find_file", "read_file", "verify_bytes"]


def cache_folder() -> Path:
    """The platform's folder for files that can be fetched again."""
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "covshift"


def data_folders() -> list[Path]:
    """Folders in the order in which they are read: `$COVSHIFT_DATA` where set, then the cache."""
    named = os.environ.get("COVSHIFT_DATA")
    return [*([Path(named).expanduser()] if named else []), cache_folder()]


def find_file(entry: DataFile) -> Path | None:
    """Where the file lies on this machine, unverified; None where it is in no folder."""
    return next((path for folder in data_folders() if (path := folder / entry.file).is_file()), None)


def verify_bytes(entry: DataFile, data: bytes, origin: str) -> None:
    """Refuse bytes that are not the published file.

    The SHA-256 decides; for entries marked "values" the same numbers in another print are accepted as well.
    """
    found = hashlib.sha256(data).hexdigest()
    if found == entry.sha256:
        return
    what = f"{origin} is not the published {entry.file}"
    if entry.values is not None:
        try:
            digest = values_digest(data)
        except ValueError as error:
            raise DataVerificationError(f"{what}: {error}") from error
        if digest == entry.values:
            return
        raise DataVerificationError(f"{what}: its numbers have the digest {digest}, expected {entry.values}")
    if len(data) < entry.size:
        raise DataVerificationError(f"{what}: it ends after {len(data)} of {entry.size} bytes")
    raise DataVerificationError(
        f"{what}: its SHA-256 is {found} ({len(data)} bytes), expected {entry.sha256} ({entry.size} bytes)"
    )


def read_file(path: str, *, download_if_missing: bool = True) -> bytes:
    """The verified bytes of a registered file, downloaded first where it is in no folder.

    A file that is there but wrong is an error, never replaced in silence.
    """
    entry = data_file(path)
    place = find_file(entry)
    if place is None:
        if not download_if_missing:
            raise FileNotFoundError(_how_to_provide(entry, "downloads are switched off"))
        place = fetch_file(entry)
    data = place.read_bytes()
    try:
        verify_bytes(entry, data, str(place))
    except DataVerificationError as error:
        raise DataVerificationError(f"{error}. Delete it, and it is fetched anew") from error
    return data


def fetch_file(entry: DataFile, policy: DownloadPolicy | None = None) -> Path:
    """Download one file, verified and written whole or not at all; returns where it now lies."""
    if not entry.sources:
        raise FileNotFoundError(_how_to_provide(entry, entry.note or "no public address is known"))
    path = _writable_folder(entry) / entry.file
    reasons: list[str] = []
    wrong = False
    for source in entry.sources:
        try:
            _fetch_from(entry, source, path, policy)
            return path
        except ConnectionError as error:
            reasons.append(str(error))
        except DataVerificationError as error:
            reasons.append(str(error))
            wrong = True
        except OSError as error:
            raise _disk_trouble(error, path, entry) from error
    message = _how_to_provide(entry, "; ".join(reasons))
    raise DataVerificationError(message) if wrong else FileNotFoundError(message)


def _fetch_from(entry: DataFile, source: Source, path: Path, policy: DownloadPolicy | None) -> None:
    # One part file an address: the archives of two addresses need not be the same bytes.
    part = path.with_name(f".{path.name}.{zlib.crc32(source.url.encode()):08x}.part")
    continued = part.exists()
    while True:
        download(source.url, part, policy)
        try:
            data = _member(part.read_bytes(), source)
            verify_bytes(entry, data, source.url)
            break
        except DataVerificationError:
            part.unlink()
            if not continued:
                raise
            continued = False  # the old beginning may be at fault: once more from the start
    if source.member is None:
        os.replace(part, path)
    else:
        _write_whole(path, data)
        part.unlink()


def _member(body: bytes, source: Source) -> bytes:
    if source.member is None:
        return body
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            for name in archive.namelist():
                if name.rsplit("/", 1)[-1] == source.member:
                    return archive.read(name)
    except (zipfile.BadZipFile, zlib.error) as error:
        raise DataVerificationError(f"{source.url} is not a whole zip archive: {error}") from error
    raise DataVerificationError(f"{source.url} holds no file {source.member}")


def _write_whole(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _writable_folder(entry: DataFile) -> Path:
    refusals = []
    for folder in data_folders():
        place = (folder / entry.file).parent
        try:
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                return folder
        except OSError as error:
            refusals.append(f"{place} ({error.strerror})")
    raise PermissionError(
        errno.EACCES,
        f"there is no folder to put {entry.file} in: {', '.join(refusals)}. "
        "Set COVSHIFT_DATA to a folder that can be written",
    )


def _disk_trouble(error: OSError, path: Path, entry: DataFile) -> OSError:
    return OSError(
        error.errno,
        f"{error.strerror} while writing {path} ({entry.size} bytes). Free some space there, "
        "or set COVSHIFT_DATA to a folder on another disk; what arrived is kept and continued",
    )


def _how_to_provide(entry: DataFile, reason: str) -> str:
    addresses = " or ".join(
        source.url + (f" (member {source.member})" if source.member else "") for source in entry.sources
    )
    places = " or ".join(str(folder / entry.file) for folder in data_folders())
    where = f"Get it from {addresses} and put it at {places}" if addresses else f"Put it at {places}"
    return (
        f"{entry.file} ({entry.name}) is not on this machine and could not be downloaded: {reason}. {where}; "
        "any other folder of the same layout can be named by COVSHIFT_DATA"
    )
