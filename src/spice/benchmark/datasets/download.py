"""Downloads published files: resumes, verifies checksums, and unpacks archives safely."""

import hashlib
import http.client
import lzma
import os
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from spice.benchmark.datasets.catalog import Remote
from spice.errors import UserError
from spice.progress import Progress, silent
from spice.version import __version__

WAITS = (1.0, 4.0)  # seconds before each retry; any progress starts from the first again

_CHUNK = 1 << 18
_TIMEOUT = 30.0
_RETRY = {408, 416, 429, 500, 502, 503, 504}
_MANUALLY = "download it yourself and pass it with --from"
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, RuntimeError)


class _TemporaryError(Exception):
    """A temporary failure of the server or the network."""


def download(remote: Remote, folder: Path, *, progress: Progress = silent, waits: Sequence[float] = WAITS) -> Path:
    """Download the file into `folder` and verify its checksum."""
    target, partial = folder / remote.name, folder / f"{remote.name}.partial"
    if target.exists():  # a file gets its name only after its checksum was verified
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with partial.open("ab", buffering=0) as file:
            _transfer(remote, file, folder, progress, waits)
            os.fsync(file.fileno())
        _check(remote, partial)
        partial.replace(target)
    except OSError as error:
        raise UserError(
            f"cannot write {partial}: {error.strerror or error}; free some space, or choose another folder with --to "
            "(the partial download is kept)"
        ) from error
    return target


def _transfer(remote: Remote, file: IO[bytes], folder: Path, progress: Progress, waits: Sequence[float]) -> None:
    """Send requests until everything has arrived or retries are used up."""
    if file.tell() > remote.bytes:
        _start_over(file)
    missing, free = remote.bytes - file.tell(), shutil.disk_usage(folder).free
    if free < missing:
        raise UserError(
            f"need {missing / 1e6:,.0f} MB more, but {folder} has {free / 1e6:,.0f} MB free; free some space, or "
            "choose another folder with --to"
        )
    failures = 0
    while (before := file.tell()) < remote.bytes:
        try:
            _request_rest(remote, file, progress)
        except _TemporaryError as error:
            failures = 1 if file.tell() > before else failures + 1
            if failures > len(waits):
                raise UserError(_given_up(remote, file.tell(), error)) from error
            time.sleep(waits[failures - 1])


def _request_rest(remote: Remote, file: IO[bytes], progress: Progress) -> None:
    """Request the missing part of the file."""
    have = file.tell()
    headers = {"User-Agent": f"spice-cluster/{__version__}"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with _network():
            response = urlopen(Request(remote.url, headers=headers), timeout=_TIMEOUT)  # our own catalog  # nosec B310
    except HTTPError as error:
        if error.code not in _RETRY:
            raise UserError(f"{remote.url} returned {error.code} {error.reason}: {_MANUALLY}") from error
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            _start_over(file)  # the local part is not the beginning of the file
        raise _TemporaryError(f"the server returned {error.code} {error.reason}") from error
    with response:
        # A server that ignores Range sends everything again.
        if not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            _start_over(file)
        total = file.tell() + int(response.headers.get("Content-Length", remote.bytes - file.tell()))
        if total != remote.bytes:  # another file, which is better noticed before a long download
            raise UserError(f"{remote.url} now has {total:,} bytes, but {remote.bytes:,} are published: {_MANUALLY}")
        progress(f"{remote.name} (kB)", file.tell() // 1000, remote.bytes // 1000)
        while chunk := _read(response):
            # Unbuffered, so that nothing is left to write if the disk is full.
            view = memoryview(chunk)
            while view:
                view = view[file.write(view) :]
            progress(f"{remote.name} (kB)", file.tell() // 1000, remote.bytes // 1000)
            if file.tell() > remote.bytes:
                raise UserError(f"{remote.url} sends more than the published {remote.bytes:,} bytes: {_MANUALLY}")
    if file.tell() < remote.bytes:
        raise _TemporaryError("the connection was lost")


def _start_over(file: IO[bytes]) -> None:
    file.seek(0)
    file.truncate()


def _read(response: http.client.HTTPResponse) -> bytes:
    with _network():
        return response.read(_CHUNK)


@contextmanager
def _network() -> Iterator[None]:
    """Turn errors of the network, but not answers of the server, into a `_TemporaryError`."""
    try:
        yield
    except HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise _TemporaryError(str(reason) or type(error).__name__) from error


def _check(remote: Remote, partial: Path) -> None:
    with partial.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    if checksum != remote.sha256:
        partial.unlink()
        raise UserError(
            f"{remote.url} has checksum {checksum}, expected {remote.sha256}; the download was deleted. Try again; if "
            "the checksum is wrong again, the file on the server has changed"
        )


def _given_up(remote: Remote, have: int, error: _TemporaryError) -> str:
    if have == 0:
        return f"{remote.url} cannot be reached ({error}): check the network, or {_MANUALLY}"
    return (
        f"{remote.url} stopped after {have / 1e6:,.1f} of {remote.bytes / 1e6:,.1f} MB ({error}): run the same "
        "command again to resume"
    )


def is_archive(path: Path) -> bool:
    """Whether the file is a tar or zip archive of files, judged by its content. An .npz is not: it contains arrays."""
    if tarfile.is_tarfile(path):
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return not all(name.endswith(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def unpack(path: Path, folder: Path, *, progress: Progress = silent) -> None:
    """Write all regular files of the archive into `folder`, without links and devices. May raise an OSError."""
    task, total = f"unpacking {path.name} (kB)", path.stat().st_size // 1000
    try:
        for name, content, position in _tar(path) if tarfile.is_tarfile(path) else _zip(path):
            target = folder / _inside(name, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
            progress(task, min(position // 1000, max(total - 1, 0)), total)
    except _DAMAGE as error:
        raise UserError(f"{path} cannot be unpacked ({error}): is it complete?") from error
    progress(task, total, total)


def _inside(name: str, archive: Path) -> PurePosixPath:
    """The name as a path; a UserError if it could lead outside the folder on any system."""
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts or not inside.parts or set(name) & set("\\:\0"):
        raise UserError(f"{archive} was refused: it contains {name!r}, which could be written outside its folder")
    return inside


def _tar(path: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    """Name, content and position of every regular file, in order."""
    with path.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:*") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content, raw.tell()
            archive.members.clear()  # type: ignore[attr-defined]  # otherwise, tarfile keeps a kilobyte per member


def _zip(path: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                with archive.open(info) as content:
                    yield info.filename, content, info.header_offset
