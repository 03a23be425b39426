"""What a command shows: bars and tables on a terminal, plain lines elsewhere, JSON for scripts."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from spice.progress import Logged, Progress, duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from spice.runs import Account, Cluster
    from spice.runs.records import JointResult, ViewsResult


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Bars where a person watches, a line every few seconds elsewhere. On stderr: stdout is for the result."""
    if not sys.stderr.isatty():
        logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
        logging.getLogger("spice").setLevel(logging.INFO)
        yield Logged()
        return
    from rich.console import Console
    from rich.logging import RichHandler
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("[dim]{task.fields[figures]}"),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        above = RichHandler(console=bars.console, show_time=False, show_level=False, show_path=False)
        logging.basicConfig(handlers=[above], format="%(message)s", level=logging.WARNING)
        logging.getLogger("spice").setLevel(logging.INFO)
        yield _OnBars(bars)


class _OnBars:
    """Progress as one bar per task."""

    def __init__(self, bars: "Bars") -> None:
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        if task not in self.tasks:
            self.tasks[task] = self.bars.add_task(task, total=total, completed=done, figures="")
        speed = self.bars.tasks[self.tasks[task]].speed  # None until two steps are done
        rate = [f"{speed:,.1f}/s"] if speed else []
        text = " ".join(rate + [f"{name} {value:.4g}" for name, value in (figures or {}).items()])
        self.bars.update(self.tasks[task], completed=done, total=total, figures=text)


def show_account(account: "Account", *, as_json: bool) -> None:
    """Print a run: what went in, the clusters and how far to trust them, what was written, what to do next."""
    if as_json:
        print(account.model_dump_json(indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    for line in _what_went_in(account):
        console.print(line, markup=False)
    console.print()
    if account.reliable is not None:
        _show_clusters(console, account.clusters)
        console.print()
        for line in _what_came_out(account, account.reliable):
            console.print(line, markup=False)
    console.print(_times(account), markup=False)
    for warning in account.warnings:
        console.print(f"{warning.name}: {warning.text}", style="yellow", markup=False)
    console.print()
    for line in _what_next(account):
        console.print(line, markup=False)


def _what_went_in(account: "Account") -> list[str]:
    scan, views, heads = account.scan, account.views, account.heads
    problems = f"; {scan.problems:,} could not be used, see problems.csv" if scan.problems else ""
    copies = f"; {scan.copies:,} are exact copies of others" if scan.copies else ""
    lines = [f"images     {account.images:,}{problems}{copies}"]
    if views:
        lines.append(f"features   {views.encoder}, {views.width} wide{_computed(views)}")
    if heads:
        best = heads.selected
        lines.append(
            f"heads      {heads.heads} trained; head {best.head} selected at epoch {best.epoch}, loss {best.loss:.4f} "
            "(no labels used)"
        )
    return lines


def _computed(views: "ViewsResult") -> str:
    return f", images at {views.size} px" + (", in 8-bit integers" if views.precision == "int8" else "")


def _show_clusters(console: "Console", clusters: "list[Cluster]") -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), width=72)
    for name in ("cluster", "images", "reliable", "", "confused with"):
        table.add_column(name, justify="left" if name == "" else "right", no_wrap=True)
    for cluster in clusters:
        share = cluster.reliable / cluster.images if cluster.images else 0.0
        style = "green" if share >= 0.5 else "yellow" if share > 0 else "red"
        other = "" if cluster.nearest_other_cluster is None else str(cluster.nearest_other_cluster)
        bar = "#" * round(20 * share)
        table.add_row(str(cluster.cluster), f"{cluster.images:,}", f"{share:.0%}", f"[{style}]{bar:<20}[/]", other)
    console.print(table)


def _what_came_out(account: "Account", reliable: int) -> list[str]:
    lines = [f"reliable   {reliable:,} of {account.images:,} images ({_share(reliable, account.images)})"]
    if account.joint is not None:
        lines.append(f"refined    {_refined(account.joint)}")
    if account.labels is not None:
        lines.append(
            f"k-means    on the same features: {_share(account.labels.kmeans_reliable, account.images)} reliable; "
            f"adjusted Rand index with this clustering {account.labels.kmeans_agreement:.2f} (1 is identical)"
        )
    return lines


def _refined(joint: "JointResult") -> str:
    """Whether joint training's result is used, and what it changed."""
    if not joint.used or joint.before is None or joint.after is None:
        return f"no: joint training was rejected, keeping the stage-2 result ({'; '.join(joint.failed_checks)})"
    before, after = joint.before.neighbor_agreement, joint.after.neighbor_agreement
    verb = "rose" if after > before else "fell"
    return (
        f"yes: it learned from {joint.labeled:,} labels; {joint.moved:,} images moved to another cluster; neighbor "
        f"agreement {verb} from {before:.3f} to {after:.3f}"
    )


def _times(account: "Account") -> str:
    times = ", ".join(f"{step} {duration(seconds)}" for step, seconds in account.seconds.items() if seconds >= 0.5)
    return f"time       {duration(sum(account.seconds.values()))}{f' ({times})' if times else ''}"


def _what_next(account: "Account") -> list[str]:
    run, name = Path(account.run), quote(account.run)
    stopped = [f"stopped    before {account.stopped_before}, as asked; continue with: spice resume {name}"]
    if account.reliable is None:
        return stopped
    page = run / "report.html"
    return [
        *(stopped if account.stopped_before else []),
        f"written    {run / 'labels.csv'}, labels.parquet, model/ and more",
        *([f"look       {page}"] if page.exists() else []),
        f"next       spice export {name} groups --as folders     a folder per group",
        f"           spice check {name}                          how far to trust it: look at 50 images",
        f"           spice why {name} IMAGE                      why an image is where it is",
        f"           spice predict {name} MORE_IMAGES            the same groups for other images",
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "0%"
