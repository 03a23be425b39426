"""Results that depend on the features alone, computed in the background while the heads train on one core."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Value = TypeVar("Value")

# With more images, the seconds saved do not matter, but the memory does.
MOST_IMAGES = 50_000


class BackgroundResults:
    """Values by name, computed one at a time by a background thread."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="background")
        self._started: dict[str, Future[Any]] = {}

    def start(self, name: str, compute: Callable[[], Value]) -> None:
        """Compute a value in the background."""
        self._started[name] = self._pool.submit(compute)

    def take(self, name: str, compute: Callable[[], Value]) -> Value:
        """Wait for the value, and raise its error if there was one; compute it now if it was not started."""
        started = self._started.pop(name, None)
        if started is None:
            return compute()
        value: Value = started.result()
        return value

    def cancel(self) -> None:
        """Cancel work that has not begun, so that a stopped command does not wait for it."""
        for started in self._started.values():
            started.cancel()
        self._started.clear()
