"""What a command shows: bars and tables on a terminal, plain lines elsewhere, JSON for scripts."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING

from spice.progress import LogProgress, Progress, duration
from spice.wording import listed, percent

WIDTH, INDENT, BAR = 80, 11, 10  # of the summary, in characters
TIED = "\xa0"  # a space at which lines are not broken
COLORS = {"good": "green", "mixed": "yellow", "weak": "red"}  # of the verdicts

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from spice.runs import Account, Cluster
    from spice.runs.records import JointResult, ViewsResult


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Progress bars on a terminal, a line every few seconds elsewhere. On stderr, because stdout is for the result."""
    if not sys.stderr.isatty():
        logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
        logging.getLogger("spice").setLevel(logging.INFO)
        yield LogProgress()
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
        yield _ProgressBars(bars)


class _ProgressBars:
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


def show_account(account: "Account", *, as_json: bool, details: bool = False) -> None:
    """Print the summary of a run: the images, the groups and how far to trust them, the files, and what to do next."""
    if as_json:
        print(account.model_dump_json(indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    _print_lines(console, _input_lines(account))
    if details:
        _print_lines(console, _training_lines(account))
    console.print()
    if account.reliable is not None:
        _show_clusters(console, account.clusters)
        console.print()
        _print_lines(console, _trust_lines(account, account.reliable, details=details))
    _print_lines(console, [_times(account, details=details)])
    warnings = [warning.text for warning in account.warnings if warning.name != "NoReliableImagesWarning"]
    _print_lines(console, [f"warning    {text}" for text in warnings], style="yellow")  # not what the table shows
    console.print()
    _print_lines(console, _next_lines(account))


def offer_page(run: Path, wanted: bool | None) -> None:
    """Print where the report is and, on a terminal, offer to open it."""
    page = run / "report.html"
    if not page.exists():
        return
    address = page.absolute().as_uri()
    print(f"report     {address}")
    if wanted is None and sys.stdin.isatty() and sys.stdout.isatty():
        try:
            wanted = input("Open the report? [Y/n] ").strip().lower() in ("", "y", "yes")
        except (EOFError, KeyboardInterrupt):
            print()
    if wanted:
        import webbrowser

        webbrowser.open(address)


def _print_lines(console: "Console", lines: list[str], *, style: str | None = None) -> None:
    """Print each line, wrapped at words. Paths and commands are never broken."""
    for line in lines:
        label, rest = line[:INDENT], line[INDENT:]
        for number, part in enumerate(wrap(rest, WIDTH - INDENT, break_long_words=False, break_on_hyphens=False)):
            text = f"{' ' * INDENT if number else label}{part}".replace(TIED, " ")
            console.print(text, style=style, markup=False)


def _input_lines(account: "Account") -> list[str]:
    from spice.data.problems import skipped_in_words

    scan, views = account.scan, account.views
    problems = f"; {skipped_in_words(scan.skipped)}" if scan.skipped else ""
    copies = f"; {scan.copies:,} are exact copies of others" if scan.copies else ""
    lines = [f"images     {account.images:,}{copies}{problems}"]
    if views:
        lines.append(f"encoder    {views.encoder}{_computed(views)}")
    return lines + _how_many(account)


def _training_lines(account: "Account") -> list[str]:
    if account.heads is None:
        return []
    heads, best = account.heads, account.heads.selected
    some = heads.learned_from is not None and heads.learned_from < account.images
    drawn = f", on {heads.learned_from:,} images drawn at random" if some else ""
    return [
        f"heads      {heads.heads} trained{drawn}; head {best.head} selected at epoch {best.epoch}, "
        f"loss {best.loss:.4f} (no labels used)"
    ]


def _computed(views: "ViewsResult") -> str:
    return f", images at {views.size} px" + (", in 8-bit integers" if views.precision == "int8" else "")


def _how_many(account: "Account") -> list[str]:
    """The number of groups found, other plausible numbers, and whether the two methods agree."""
    from spice.runs.other_counts import counts_in_words, nearest_count

    found = account.howmany
    if found is None or found.clusters is None or account.reliable is None:
        return []
    others = account.other_counts
    reason = " (fits your labels best)" if found.fits_labels else ""
    tried, words = found.clusters + 1, "To try another number:"
    if others:
        tried = nearest_count(found.clusters, others).clusters
    if found.contradictory:
        tried = found.finest_peak if found.finest_peak != found.clusters else found.communities
        words = f"Two methods disagree ({found.finest_peak} and {found.communities} groups). To compare:"
    command = f"spice cluster {quote(_short(account.source))} -k {tried}{_out(account)}".replace(" ", TIED)
    return [f"groups     {counts_in_words(found.clusters, others, reason=reason)}", f"           {words} {command}"]


def _short(source: str | None) -> str:
    """The source as the user probably typed it: relative to the current folder if it is inside."""
    path = Path(source or "IMAGES")
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _out(account: "Account") -> str:
    """`--out RUN`, if the run folder is not the default one."""
    run = Path(account.run)
    usual = Path(f"{Path(account.source or '').name.partition('.')[0]}.spice")
    return "" if run == usual else f" --out {quote(account.run)}"


def _show_clusters(console: "Console", clusters: "list[Cluster]") -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("group", "images", "chance"):
        table.add_column(name, justify="right", min_width=len(name))
    table.add_column("", min_width=BAR)
    table.add_column("verdict", min_width=7)
    table.add_column("similar to", justify="right", min_width=10)
    # Only a long name is cut where the terminal is narrow.
    table.add_column("name" if any(cluster.name for cluster in clusters) else "", no_wrap=True, overflow="ellipsis")
    for cluster in clusters:
        table.add_row(*_row(cluster))
    console.print(table)


def _row(cluster: "Cluster") -> list[str]:
    from rich.markup import escape

    color = COLORS[cluster.grade]
    chance = cluster.chance or 0.0
    other = "" if cluster.nearest_other_cluster is None else str(cluster.nearest_other_cluster)
    return [
        str(cluster.cluster),
        f"{cluster.images:,}",
        f"{chance:.0%}" if cluster.images else "",
        f"[{color}]{'#' * round(BAR * chance):<{BAR}}[/]",
        f"[{color}]{cluster.grade}[/]",
        other,
        escape(cluster.name),
    ]


def _trust_lines(account: "Account", reliable: int, *, details: bool) -> list[str]:
    lines = [_chance(account), *_weak(account)]
    if account.joint is not None:
        lines.append(f"refined    {_refined(account.joint)}")
    if details:
        share = percent(reliable, account.images)
        lines.append(f"reliable   {reliable:,} images ({share}): nearly all similar images are in their group")
    if details and account.labels is not None:
        lines.append(
            f"k-means    {percent(account.labels.kmeans_reliable, account.images)} reliable; agreement with these "
            f"groups {account.labels.kmeans_agreement:.2f} (adjusted Rand index, same features)"
        )
    return lines


def _chance(account: "Account") -> str:
    """The mean chance, and how to replace this estimate by a measurement."""
    total = sum(cluster.images * (cluster.chance or 0.0) for cluster in account.clusters)
    return (
        f"chance     about {percent(total, account.images)} are in the right group, if images that look alike to the "
        f"encoder belong together. To measure it: {_command(account, 'check')}"
    )


def _weak(account: "Account") -> list[str]:
    """The groups to look at first."""
    weak = [cluster.cluster for cluster in account.clusters if cluster.grade == "weak" and cluster.images]
    if not weak:
        return []
    subject = f"group {weak[0]} resembles" if len(weak) == 1 else f"groups {listed(weak, most=8)} resemble"
    return [f"weak       {subject} several other groups: look there first"]


def _refined(joint: "JointResult") -> str:
    """Whether joint training's result is used, and what it changed."""
    if not joint.used or joint.before is None or joint.after is None:
        return f"no: joint training was rejected, keeping the stage-2 result ({'; '.join(joint.failed_checks)})"
    before, after = joint.before.neighbor_agreement, joint.after.neighbor_agreement
    verb = "rose" if after > before else "fell"
    return (
        f"yes: it learned from {joint.labeled:,} labels; {joint.moved:,} images moved to another group; neighbor "
        f"agreement {verb} from {before:.3f} to {after:.3f}"
    )


def _times(account: "Account", *, details: bool) -> str:
    longer = {step: duration(seconds) for step, seconds in account.seconds.items() if seconds >= 0.5}
    times = ", ".join(f"{step} {time}".replace(" ", TIED) for step, time in longer.items())
    return f"time       {duration(sum(account.seconds.values()))}{f' ({times})' if times and details else ''}"


def _next_lines(account: "Account") -> list[str]:
    run, command = Path(account.run), partial(_command, account)
    stopped = [f"stopped    before {account.stopped_before}, as requested; resume with: {command('resume')}"]
    if account.reliable is None:
        return stopped
    large = (run / "labels.parquet").exists() and not (run / "labels.csv").exists()
    tables = ["labels.parquet"] if large else ["labels.csv", "labels.parquet"]
    written = [str(run / tables[0]).replace(" ", TIED), *tables[1:]]
    accept_names = f"           {command('name', '--suggest')}  # accept the names with a question mark"
    as_text = f"           {command('export', 'labels.csv --as csv')}  # the groups as a table of text"
    return [
        *(stopped if account.stopped_before else []),
        f"wrote      {', '.join(written)}, model/ and more",
        f"next       {command('open')}  # name and correct the groups",
        *([accept_names] if any(cluster.name.endswith("?") for cluster in account.clusters) else []),
        f"           {command('check')}  # measure the accuracy",
        f"           {command('export', 'groups --as folders')}  # one folder per group",
        *([as_text] if large else []),
        f"           {command('predict', 'MORE_IMAGES')}  # sort more images",
    ]


def _command(account: "Account", name: str, arguments: str = "") -> str:
    """A command to copy, which is not broken over two lines."""
    return f"spice {name} {quote(account.run)} {arguments}".strip().replace(" ", TIED)
