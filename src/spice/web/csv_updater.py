"""Keeps `labels.csv` up to date. The edits themselves are saved before this starts."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from spice.errors import UserError
from spice.progress import log
from spice.runs import update_csv

_PAUSE = 0.5  # seconds, so that several quick edits cause one write


class CsvUpdater:
    """Writes the table in a thread, soon after the last edit."""

    def __init__(self, run: Path) -> None:
        self._run, self._stale, self._ending = run, False, threading.Event()
        self._thread = ThreadPoolExecutor(1)

    def changed(self) -> None:
        """Schedule a write after an edit."""
        if not self._stale and not self._ending.is_set():
            self._stale = True
            self._thread.submit(self._write)

    def close(self) -> None:
        """Write the last changes, and stop."""
        self._ending.set()
        self._thread.shutdown()

    def _write(self) -> None:
        self._ending.wait(_PAUSE)
        self._stale = False
        try:
            update_csv(self._run)
        except (UserError, OSError) as error:
            log.warning("labels.csv could not be written: %s", error)
