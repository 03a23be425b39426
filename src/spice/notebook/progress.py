"""Progress of a fit in Python: bars in a notebook, lines in a script."""

import html
import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from spice.progress import LogProgress, Progress, log, silent
from spice.wording import step_in_words

_SECONDS_BETWEEN_DRAWINGS = 0.2  # redrawing a cell costs more than a step of work


@contextmanager
def show_progress(verbose: bool) -> Iterator[Progress]:
    """If `verbose`, progress as bars in a notebook or lines on stderr in a script; otherwise none."""
    if not verbose:
        yield silent
    elif in_notebook():
        yield Bars()
    else:
        with _lines_on_stderr():
            yield LogProgress(every_seconds=2.0)


def in_notebook() -> bool:
    """Whether this runs in a notebook kernel, which shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


@contextmanager
def _lines_on_stderr() -> Iterator[None]:
    """Show our log, unless the user's program shows it already."""
    if log.hasHandlers() and log.isEnabledFor(logging.INFO):
        yield
        return
    handler, level = logging.StreamHandler(sys.stderr), log.level
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


class Bars:
    """One bar per task, in the output of a cell. Plain HTML: no widgets have to be installed."""

    def __init__(self) -> None:
        self._tasks: dict[str, tuple[int, int, str]] = {}
        self._handle: Any = None
        self._drawn = 0.0

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        """Redraw the bars, at most every 0.2 s and when the task is done."""
        text = ", ".join(f"{name} {value:.4g}" for name, value in (figures or {}).items())
        self._tasks[task] = done, total, text
        now = time.monotonic()
        if done < total and now - self._drawn < _SECONDS_BETWEEN_DRAWINGS:
            return
        self._drawn = now
        self._show()

    def as_html(self) -> str:
        """The bars as a table."""
        rows = (
            f"<tr><td style='text-align:left'>{html.escape(step_in_words(task))}</td>"
            f"<td><progress value='{done}' max='{max(1, total)}'></progress></td>"
            f"<td style='text-align:left'>{done:,} of {total:,} {html.escape(text)}</td></tr>"
            for task, (done, total, text) in self._tasks.items()
        )
        return f"<table>{''.join(rows)}</table>"

    def _show(self) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(self.as_html()), display_id=True)
        else:
            self._handle.update(HTML(self.as_html()))
