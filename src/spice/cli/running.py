"""How commands run: progress, Ctrl-C and `kill`, questions to the user, and what follows an edit."""

import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
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
    """Show the progress of a run; when the user stops it, say how to resume. Its warnings are for the summary."""
    before = signal.signal(signal.SIGTERM, _stop)
    kept = f"finished work is kept. Resume with: spice resume {quoted(str(run))}"
    try:
        with stoppable(kept, run=run) as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", SpiceWarning)
            warnings.simplefilter("always", NoticeWarning)
            yield progress
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stoppable(kept: str, *, run: Path | None = None) -> Iterator[Progress]:
    """Show progress; on Ctrl-C, end with one line: what is `kept` and how to resume, if `run` has been written."""
    try:
        with show_progress() as progress:
            yield progress
    except KeyboardInterrupt:
        if os.environ.get("RANK", "0") == "0":  # under torchrun only the first process prints
            begun = run is None or run.exists()
            print(f"\nspice: stopped; {kept if begun else 'nothing was written'}", file=sys.stderr)
        raise typer.Exit(130) from None  # what shells expect of a command ended by Ctrl-C


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Progress bars on a terminal, a line every few seconds elsewhere. On stderr, because stdout is for the result."""
    if not sys.stderr.isatty():
        with _messages(logging.StreamHandler(sys.stderr)):
            yield LogProgress()
        return
    from rich.console import Console
    from rich.logging import RichHandler
    from rich.progress import Progress as Bars

    with Bars(*_columns(), console=Console(stderr=True)) as bars:
        above = RichHandler(console=bars.console, show_time=False, show_level=False, show_path=False)
        shown = _ProgressBars(bars)
        try:
            with _messages(above):
                yield shown
        finally:
            shown.started()


@contextmanager
def _messages(handler: logging.Handler) -> Iterator[None]:
    """Show our own messages. Other libraries show theirs themselves: on the root logger they would appear twice."""
    log.setLevel(logging.INFO)
    if logging.getLogger().handlers:  # somebody shows all messages already
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
    """Whether the user says yes; no where nobody can answer, as in a script."""
    return sys.stdin.isatty() and typer.confirm(question)


class _ProgressBars:
    """Progress as one bar per task."""

    def __init__(self, bars: "Bars") -> None:
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}
        self.starting: TaskID | None = bars.add_task("starting", total=None, figures="")  # until the first step

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        """Show how far this task is."""
        self.started()
        if task not in self.tasks:
            self.tasks[task] = self.bars.add_task(step_in_words(task), total=total, completed=done, figures="")
        speed = self.bars.tasks[self.tasks[task]].speed  # None until two steps are done
        rate = [f"{speed:,.1f}/s"] if speed else []
        text = " ".join(rate + [f"{name} {value:.4g}" for name, value in (figures or {}).items()])
        self.bars.update(self.tasks[task], completed=done, total=total, figures=text)

    def started(self) -> None:
        """Hide the line that is shown before the first step."""
        if self.starting is not None:
            self.bars.update(self.starting, visible=False)
            self.starting = None


def _columns() -> "tuple[ProgressColumn, ...]":
    """The columns of the bars: what is done, how much of it, and the time left or, at the end, taken."""
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


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the system's signature
    raise KeyboardInterrupt
