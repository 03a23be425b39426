"""What commands share while they run: progress, Ctrl-C and `kill`, questions to the user, and edits."""

import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING

import typer

from spice.errors import NoticeWarning, SpiceWarning
from spice.progress import LogProgress, Progress, duration, log
from spice.wording import quoted, step_in_words

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn, TaskID


@contextmanager
def interruptible(run: Path) -> Iterator[Progress]:
    """Show the progress of a run; on Ctrl-C or `kill`, say how to resume.

    Warnings about the result are hidden, because the summary shows them.
    """
    kept = f"finished work is kept. Resume with: spice resume {quoted(run)}"
    signals = (signal.SIGINT, signal.SIGTERM)
    with stoppable(kept, run=run, signals=signals) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        warnings.simplefilter("always", NoticeWarning)
        yield progress


@contextmanager
def stoppable(
    kept: str, *, run: Path | None = None, signals: tuple[signal.Signals, ...] = (signal.SIGINT,)
) -> Iterator[Progress]:
    """Show progress; on Ctrl-C, end with one line: what is `kept`, or that nothing was written if `run` is missing."""
    try:
        with _noted(signals) as interrupted, show_progress() as progress:

            def show(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
                if interrupted.is_set():
                    raise KeyboardInterrupt
                progress(task, done, total, figures)

            yield show
    except KeyboardInterrupt:
        if os.environ.get("RANK", "0") == "0":  # under torchrun only the first process prints
            missing = run is not None and not run.exists()
            print(f"\nspice: stopped; {'nothing was written' if missing else kept}", file=sys.stderr)
        raise typer.Exit(130) from None  # what shells expect of a command ended by Ctrl-C


@contextmanager
def _noted(signals: tuple[signal.Signals, ...]) -> Iterator[Event]:
    """Turn signals into KeyboardInterrupt, and set an event: some libraries swallow the exception while they load."""
    interrupted = Event()
    handlers = {number: signal.getsignal(number) for number in signals}
    previous = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        handler = previous[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)
        raise KeyboardInterrupt

    try:
        for number in previous:
            signal.signal(number, interrupt)
        yield interrupted
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Progress bars on a terminal, a line every few seconds elsewhere. On stderr, because stdout is for the result."""
    if not sys.stderr.isatty():
        with _show_log(logging.StreamHandler(sys.stderr)):
            yield LogProgress()
        return
    from rich.console import Console
    from rich.logging import RichHandler
    from rich.progress import Progress as Bars

    with Bars(*_columns(), console=Console(stderr=True)) as bars:
        handler = RichHandler(console=bars.console, show_time=False, show_level=False, show_path=False)
        progress = _ProgressBars(bars)
        try:
            with _show_log(handler):
                yield progress
        finally:
            progress.hide_starting()


@contextmanager
def _show_log(handler: logging.Handler) -> Iterator[None]:
    """Show our log, but not the root logger's: other libraries show their messages themselves."""
    log.setLevel(logging.INFO)
    if logging.getLogger().handlers:  # the root logger already shows everything
        yield
        return
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def editing(run: Path) -> Iterator[None]:
    """Edit the groups of a run; then bring its table and its report up to date."""
    from spice.report import renew_report
    from spice.runs import update_csv, writing

    with writing(run):
        yield
        update_csv(run)
        renew_report(run)


def confirmed(question: str) -> bool:
    """Ask a yes-or-no question; without a terminal, as in a script, the answer is no."""
    return sys.stdin.isatty() and typer.confirm(question)


class _ProgressBars:
    """Progress as one bar per task."""

    def __init__(self, bars: "Bars") -> None:
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}
        self.starting: TaskID | None = bars.add_task("starting", total=None, figures="")

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        """Show how far this task is."""
        self.hide_starting()
        if task not in self.tasks:
            self.tasks[task] = self.bars.add_task(step_in_words(task), total=total, completed=done, figures="")
        speed = self.bars.tasks[self.tasks[task]].speed  # None until two steps are done
        rate = [f"{speed:,.1f}/s"] if speed else []
        text = " ".join(rate + [f"{name} {value:.4g}" for name, value in (figures or {}).items()])
        self.bars.update(self.tasks[task], completed=done, total=total, figures=text)

    def hide_starting(self) -> None:
        """Hide the line that is shown until the first step."""
        if self.starting is not None:
            self.bars.update(self.starting, visible=False)
            self.starting = None


def _columns() -> "tuple[ProgressColumn, ...]":
    """The columns of the bars: task, bar, count, time left (when done: time taken), figures."""
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Count(ProgressColumn):
        def render(self, task: Task) -> Text:
            count = "" if task.total is None else f"{int(task.completed):,}/{int(task.total):,}"
            return Text(count, style="progress.download", justify="right")

    class Time(ProgressColumn):
        max_refresh = 0.5  # seconds

        def render(self, task: Task) -> Text:
            if task.finished_time is not None:
                return Text(duration(task.finished_time), style="progress.elapsed")
            left = task.time_remaining
            return Text("" if left is None else f"{duration(left)} left", style="progress.remaining")

    return (
        TextColumn("{task.description:<20}"), BarColumn(), Count(), Time(), TextColumn("[dim]{task.fields[figures]}")
    )  # fmt: skip
