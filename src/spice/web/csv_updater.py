"""Keeps `labels.csv` in step with the edits. The edits themselves are on the disk before this starts."""

import threading
import time
from pathlib import Path

from spice.errors import UserError
from spice.progress import log
from spice.runs import update_csv

_PAUSE = 0.5  # seconds, so that several quick edits are written once


class CsvUpdater:
    """Writes the table in a thread of its own, soon after the last edit."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._wake, self._stale, self._ending = threading.Event(), False, False
        self._thread = threading.Thread(target=self._work, name="labels.csv", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        """Someone edited the run."""
        self._stale = True
        self._wake.set()

    def close(self) -> None:
        """Write the last changes, and stop."""
        self._ending = True
        self._wake.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ending:
            self._wake.wait()
            if not self._ending:
                time.sleep(_PAUSE)
            self._wake.clear()
            if self._stale:
                self._stale = False
                self._write()

    def _write(self) -> None:
        try:
            update_csv(self._run)
        except (UserError, OSError) as error:
            log.warning("labels.csv could not be written: %s", error)
