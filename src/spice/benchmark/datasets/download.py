"""Fetching a published file: goes on where it stopped, and takes its name only once its checksum is found right."""

import hashlib
import http.client
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from spice.benchmark.datasets.catalog import Remote
from spice.errors import UserError
from spice.progress import Progress, silent
from spice.version import __version__

WAITS = (1.0, 4.0)  # seconds before each new try; one that brought anything starts the list anew

_PIECE = 1 << 18
_TIMEOUT = 30.0
_TRY_AGAIN = {408, 429, 500, 502, 503, 504}
_BY_HAND = "download it by hand and give it with --from"


class _PassingError(Exception):
    """The server or the network failed in a way that may pass."""


def download(remote: Remote, folder: Path, *, progress: Progress = silent, waits: Sequence[float] = WAITS) -> Path:
    """The published file in `folder`, checked; a UserError says what is wrong and what to do."""
    target = folder / remote.name
    if target.exists():  # it got this name after its checksum was found right
        return target
    partial = folder / f"{remote.name}.partial"
    with _write_errors(partial):
        folder.mkdir(parents=True, exist_ok=True)
        with partial.open("ab", buffering=0) as file:
            _transfer(remote, file, folder, progress, waits)
            os.fsync(file.fileno())
        _check(remote, partial)
        partial.replace(target)
    return target


def _transfer(remote: Remote, file: IO[bytes], folder: Path, progress: Progress, waits: Sequence[float]) -> None:
    """Ask until everything has arrived, or nothing more comes."""
    if file.tell() > remote.bytes:
        _start_over(file)
    _need_room(remote.bytes - file.tell(), folder)
    failures = 0
    while (before := file.tell()) < remote.bytes:
        try:
            _go_on(remote, file, progress)
        except _PassingError as error:
            failures = 1 if file.tell() > before else failures + 1
            if failures > len(waits):
                raise UserError(_given_up(remote, file.tell(), error)) from error
            time.sleep(waits[failures - 1])


def _go_on(remote: Remote, file: IO[bytes], progress: Progress) -> None:
    """One request, for what is still missing."""
    have = file.tell()
    headers = {"User-Agent": f"spice-cluster/{__version__}"} | ({"Range": f"bytes={have}-"} if have else {})
    with _answer(Request(remote.url, headers=headers), remote, file) as response:
        # A server without Range sends everything again.
        if not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            _start_over(file)
        _same_size(remote, response, file.tell())
        progress(f"{remote.name} (kB)", file.tell() // 1000, remote.bytes // 1000)
        while piece := _read(response):
            _write(file, piece)
            progress(f"{remote.name} (kB)", file.tell() // 1000, remote.bytes // 1000)
            if file.tell() > remote.bytes:
                raise UserError(f"{remote.url} sends more than the published {remote.bytes:,} bytes: {_BY_HAND}")
    if file.tell() < remote.bytes:
        raise _PassingError("the connection was cut")


def _start_over(file: IO[bytes]) -> None:
    file.seek(0)
    file.truncate()


@contextmanager
def _answer(request: Request, remote: Remote, file: IO[bytes]) -> Iterator[http.client.HTTPResponse]:
    try:
        response = urlopen(request, timeout=_TIMEOUT)
    except HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            _start_over(file)  # what is here cannot be a beginning of what is there
        elif error.code not in _TRY_AGAIN:
            raise UserError(f"{remote.url} answers {error.code} {error.reason}: {_BY_HAND}") from error
        raise _PassingError(f"the server answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _passing(error) from error
    with response:
        yield response


def _same_size(remote: Remote, response: http.client.HTTPResponse, have: int) -> None:
    """A file of another size is another file: better known before gigabytes than after."""
    length = response.headers.get("Content-Length")
    if length is not None and int(length) + have != remote.bytes:
        raise UserError(
            f"{remote.url} now has {int(length) + have:,} bytes, but {remote.bytes:,} are published: {_BY_HAND}"
        )


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_PIECE)
    except (OSError, http.client.HTTPException) as error:
        raise _passing(error) from error


def _passing(error: Exception) -> _PassingError:
    return _PassingError(str(error.reason if isinstance(error, URLError) else error) or type(error).__name__)


def _write(file: IO[bytes], piece: bytes) -> None:
    """Unbuffered, so that nothing is left to write when a full disk ends it."""
    view = memoryview(piece)
    while view:
        view = view[file.write(view) :]


def _check(remote: Remote, partial: Path) -> None:
    with partial.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    if checksum != remote.sha256:
        partial.unlink()
        raise UserError(
            f"{remote.url} arrived with the checksum {checksum}, but {remote.sha256} is published; it was removed: try "
            "again, and if that does not help, the server's file is damaged or was changed"
        )


def _need_room(missing: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < missing:
        raise UserError(
            f"{missing / 1e6:,.0f} MB are still to come, but {folder} has room for {free / 1e6:,.0f} MB: make room, or "
            "choose another folder with --to"
        )


@contextmanager
def _write_errors(partial: Path) -> Iterator[None]:
    """Report a full disk or a read-only folder to the user; what has arrived is kept."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{partial} cannot be written: {error.strerror or error}; make room, or choose another folder with --to "
            "(what has arrived is kept)"
        ) from error


def _given_up(remote: Remote, have: int, error: _PassingError) -> str:
    if have == 0:
        return f"{remote.url} cannot be reached ({error}): check the network, or {_BY_HAND}"
    return (
        f"{remote.url} stopped after {have / 1e6:,.1f} of {remote.bytes / 1e6:,.1f} MB ({error}): give the same "
        "command again to go on from there"
    )
