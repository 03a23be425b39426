"""Downloads a published file: resumes, checks it before naming it, and unpacks archives inside their folder only."""

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

WAITS = (1.0, 4.0)  # seconds before each retry; progress resets the list

_PIECE = 1 << 18
_TIMEOUT = 30.0
_TRY_AGAIN = {408, 416, 429, 500, 502, 503, 504}
_BY_HAND = "download it yourself and pass it with --from"
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, RuntimeError)


class _PassingError(Exception):
    """The server or the network failed in a way that may pass."""


def download(remote: Remote, folder: Path, *, progress: Progress = silent, waits: Sequence[float] = WAITS) -> Path:
    """The published file in `folder`, checked; a UserError says what is wrong and what to do."""
    target, partial = folder / remote.name, folder / f"{remote.name}.partial"
    if target.exists():  # it got this name after its checksum was found right
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
    """Send requests until everything has arrived, or nothing more comes."""
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
        except _PassingError as error:
            failures = 1 if file.tell() > before else failures + 1
            if failures > len(waits):
                raise UserError(_given_up(remote, file.tell(), error)) from error
            time.sleep(waits[failures - 1])


def _request_rest(remote: Remote, file: IO[bytes], progress: Progress) -> None:
    """One request, for what is still missing."""
    have = file.tell()
    headers = {"User-Agent": f"spice-cluster/{__version__}"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with _network():
            response = urlopen(Request(remote.url, headers=headers), timeout=_TIMEOUT)  # our own catalog  # nosec B310
    except HTTPError as error:
        if error.code not in _TRY_AGAIN:
            raise UserError(f"{remote.url} returned {error.code} {error.reason}: {_BY_HAND}") from error
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            _start_over(file)  # what is here cannot be a beginning of what is there
        raise _PassingError(f"the server returned {error.code} {error.reason}") from error
    with response:
        # A server without Range sends everything again.
        if not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            _start_over(file)
        total = file.tell() + int(response.headers.get("Content-Length", remote.bytes - file.tell()))
        if total != remote.bytes:  # another file: better known before gigabytes than after
            raise UserError(f"{remote.url} now has {total:,} bytes, but {remote.bytes:,} are published: {_BY_HAND}")
        progress(f"{remote.name} (kB)", file.tell() // 1000, remote.bytes // 1000)
        while piece := _read(response):
            # Unbuffered, so that nothing is left to write when a full disk ends it.
            view = memoryview(piece)
            while view:
                view = view[file.write(view) :]
            progress(f"{remote.name} (kB)", file.tell() // 1000, remote.bytes // 1000)
            if file.tell() > remote.bytes:
                raise UserError(f"{remote.url} sends more than the published {remote.bytes:,} bytes: {_BY_HAND}")
    if file.tell() < remote.bytes:
        raise _PassingError("the connection was lost")


def _start_over(file: IO[bytes]) -> None:
    file.seek(0)
    file.truncate()


def _read(response: http.client.HTTPResponse) -> bytes:
    with _network():
        return response.read(_PIECE)


@contextmanager
def _network() -> Iterator[None]:
    """Tell errors of the network, which may pass, from those of the disk; a server's answer is left as it is."""
    try:
        yield
    except HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise _PassingError(str(reason) or type(error).__name__) from error


def _check(remote: Remote, partial: Path) -> None:
    with partial.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    if checksum != remote.sha256:
        partial.unlink()
        raise UserError(
            f"{remote.url} has checksum {checksum}, expected {remote.sha256}; the download was deleted. Try again; if "
            "the checksum is wrong again, the file on the server has changed"
        )


def _given_up(remote: Remote, have: int, error: _PassingError) -> str:
    if have == 0:
        return f"{remote.url} cannot be reached ({error}): check the network, or {_BY_HAND}"
    return (
        f"{remote.url} stopped after {have / 1e6:,.1f} of {remote.bytes / 1e6:,.1f} MB ({error}): run the same "
        "command again to resume"
    )


def is_archive(path: Path) -> bool:
    """Whether the content of the file, not its name, is a tar or zip archive of files (an .npz is one of arrays)."""
    if tarfile.is_tarfile(path):
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return not all(name.endswith(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def unpack(path: Path, folder: Path, *, progress: Progress = silent) -> None:
    """Write every regular file of the archive under `folder`; links and devices are left out. Raises OSError too."""
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
    """The name, if it stays below the folder on every system."""
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts or not inside.parts or set(name) & set("\\:\0"):
        raise UserError(f"{archive} was refused: it contains {name!r}, which could be written outside its folder")
    return inside


def _tar(path: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    """Name, content and place of every regular file, first to last."""
    with path.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:*") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content, raw.tell()
            archive.members.clear()  # type: ignore[attr-defined]  # tarfile would keep a kilobyte per member


def _zip(path: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                with archive.open(info) as content:
                    yield info.filename, content, info.header_offset
