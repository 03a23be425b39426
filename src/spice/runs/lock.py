"""One process at a time in a run folder. The lock is released when its process ends, however it ends."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from spice.errors import UserError

LOCK, HOLDER = ".lock", ".holder"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the run folder; UserError, which names the other process, if it is in use."""
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        holder = _holder(folder / HOLDER)
        raise UserError(
            f"{folder} is in use by {holder}; wait for it to finish, or choose another folder with --out"
        ) from None
    try:
        (folder / HOLDER).write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        lock.release()


def _holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or "another process"
    except OSError:
        return "another process"
