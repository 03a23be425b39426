"""Progress of long-running work: a callback, called after every step."""

import logging
import time
from collections.abc import Mapping
from typing import Protocol

from spice.wording import step_in_words

log = logging.getLogger("spice")

LEAST_SECONDS = 0.1  # over less time than this, a rate cannot be measured
SLOWEST = 0.05  # a lower rate would be shown as 0.0/s


class Progress(Protocol):
    """Called after every piece of work, with how much of `total` is done and figures to show (such as the loss)."""

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None: ...


class CanceledError(BaseException):
    """Raised by a progress callback to stop the work. Not an Exception, so no handler mistakes it for a failure."""


def silent(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
    """Show nothing."""


class LogProgress:
    """Writes a line to the log every few seconds: done, rate, time left."""

    def __init__(self, *, every_seconds: float = 10.0) -> None:
        self.every_seconds = every_seconds
        self._started: dict[str, tuple[float, int]] = {}  # time, and how much was done then
        self._last: dict[str, tuple[int, int]] = {}  # done and total of the last call
        self._logged = 0.0

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        """Log one line if the last one is old enough, or the task begins or is done."""
        now = time.monotonic()
        last_done, last_total = self._last.get(task, (0, total))
        if done == last_done == total:  # was logged already
            return
        if done < last_done or total != last_total:  # another task of the same name
            del self._started[task]
        self._last[task] = (done, total)
        # A resumed task starts with work already done: the rate counts from there.
        since, already = self._started.setdefault(task, (now, done))
        if 0 < done < total and now - self._logged < self.every_seconds:
            return
        self._logged = now
        elapsed = now - since
        rate = (done - already) / max(elapsed, 1e-9)
        parts = [f"{step_in_words(task)}: {done:,} of {total:,}"]
        if done > already and elapsed >= LEAST_SECONDS and rate >= SLOWEST:
            parts.append(f"{rate:,.1f}/s")
        if 0 < done < total and rate > 0:
            parts.append(f"{duration((total - done) / rate)} left")
        parts += [f"{name} {value:.4g}" for name, value in (figures or {}).items()]
        log.info(", ".join(parts))


def duration(seconds: float) -> str:
    """`75` -> `1 min 15 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
