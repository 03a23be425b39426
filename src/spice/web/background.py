"""Work that takes longer than a request: one task at a time, in a thread, with progress and cancel."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from pydantic import JsonValue

from spice.errors import UserError, one_line
from spice.progress import CanceledError, Progress, duration, log

SPEED_KNOWN_AFTER = 1.0  # seconds

Found = TypeVar("Found")


class Background(Generic[Found]):
    """At most one task at a time, and what the last one found. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._cancel = threading.Event()
        self._task, self._done, self._total = "", 0, 1
        self._since, self._already = 0.0, 0  # when the current step began, and how much of it was done then
        self._found: Found | None = None
        self.error: str | None = None

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def found(self) -> Found | None:
        """What finished work has found; None after `cancel` or `forget`."""
        return None if self.running else self._found

    def start(self, work: Callable[[Progress], Found | None]) -> bool:
        """Start the work; False if something is already running."""
        with self._lock:
            if self.running:
                return False
            self.forget()
            self._begin_step("", 0, 1)
            self._cancel.clear()
            self._thread = threading.Thread(target=self._work, args=(work,), name="background", daemon=True)
            self._thread.start()
            return True

    def cancel(self) -> None:
        """Stop at the next progress report, and wait until then."""
        self._cancel.set()
        if self._thread is not None:
            self._thread.join()
        self.forget()

    def forget(self) -> None:
        """Forget what finished work has found."""
        self._found = self.error = None

    def describe(self) -> dict[str, JsonValue]:
        """The progress so far."""
        return {
            "running": self.running,
            "canceling": self.running and self._cancel.is_set(),
            "task": self._task,
            "progress": self._done / max(1, self._total),
            "left": self._left(),
            "error": self.error,
        }

    def _left(self) -> str | None:
        """Time left for the current step, in words; None before its speed is known."""
        done, seconds = self._done - self._already, time.monotonic() - self._since
        if done <= 0 or seconds < SPEED_KNOWN_AFTER:
            return None
        return duration((self._total - self._done) * seconds / done)

    def _work(self, work: Callable[[Progress], Found | None]) -> None:
        try:
            self._found = work(self._report)
        except CanceledError:
            pass
        except Exception as error:  # noqa: BLE001 - the page must report every failure
            if not isinstance(error, UserError | OSError | MemoryError):
                log.exception("%s failed", self._task)
            self.error = one_line(error)

    def _report(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        if self._cancel.is_set():
            raise CanceledError
        if task != self._task or total != self._total or done < self._done:
            self._begin_step(task, done, total)
        self._done = done

    def _begin_step(self, task: str, done: int, total: int) -> None:
        self._task, self._done, self._total = task, done, total
        # A resumed step begins with work already done, which does not count for its speed.
        self._since, self._already = time.monotonic(), done
