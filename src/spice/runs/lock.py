"""One process at a time in a run folder.

The lock is the operating system's (flock): it ends with the process that holds it, however that process ends, so a
lock file left behind by a kill locks nobody out.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spice.errors import UserError

try:
    import fcntl
except ImportError:  # Windows: no advisory locks; two processes on one run are then the user's to avoid.
    fcntl = None  # type: ignore[assignment]

LOCK_NAME = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run folder, or say who does."""
    if fcntl is None:
        yield
        return
    # Opened for appending, so that the holder's name survives until the lock is ours.
    with (folder / LOCK_NAME).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise UserError(
                f"{folder} is in use by {holder}; wait for it to end, or give another folder with --out"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
        # The file stays: removing it would let a third process lock a name that no longer leads here.
