"""The summary at the end of a run, and the question whether to open its report."""

import sys
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from spice.errors import NothingTrustworthyError
from spice.progress import duration
from spice.wording import listed, percent, quoted, step_in_words

WIDTH, INDENT, BAR = 80, 11, 10  # in characters
TIED = "\xa0"  # a space at which lines are not broken
REMARK = "  # "  # between a command and what it does
COLORS = {"good": "green", "mixed": "yellow", "weak": "red"}  # of the verdicts

if TYPE_CHECKING:
    from rich.console import Console

    from spice.runs import Cluster, RunSummary
    from spice.runs.records import JointResult


def finish(summary: "RunSummary", *, as_json: bool, details: bool = False, open_page: bool | None = False) -> None:
    """Print the summary. A run without a single reliable image ends with its own exit code.

    Args:
        open_page: whether to open the report in the browser; None: ask on a terminal.
    """
    from spice.engine.processes import processes_from_environment

    if not processes_from_environment().first:
        return  # only the first process prints
    show_summary(summary, as_json=as_json, details=details)
    if summary.reliable == 0:
        raise NothingTrustworthyError(
            f"no image is reliable, so the groups are guesses; check a sample with: spice check {quoted(summary.run)}"
        )
    if not as_json:
        offer_page(Path(summary.run), open_page)


def show_summary(summary: "RunSummary", *, as_json: bool, details: bool = False) -> None:
    """Print the summary of a run: images, groups, how far to trust them, files, and next steps."""
    if as_json:
        print(summary.model_dump_json(indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    _print_lines(console, _input_lines(summary))
    if details:
        _print_lines(console, _training_lines(summary))
    console.print()
    if summary.reliable is not None:
        _show_clusters(console, summary.clusters)
        console.print()
        _print_lines(console, _trust_lines(summary, summary.reliable, details=details))
    _print_lines(console, [_times(summary, details=details)])
    # `finish` reports that no image is reliable.
    warnings = [warning.text for warning in summary.warnings if warning.name != "NoReliableImagesWarning"]
    _print_lines(console, [f"warning    {text}" for text in warnings], style="yellow")
    console.print()
    _print_lines(console, _next_lines(summary))


def offer_page(run: Path, wanted: bool | None) -> None:
    """Print the address of the report and, on a terminal, offer to open it."""
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
    """Print each line, wrapped at words. Commands are never broken; a remark that does not fit is left out."""
    width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    for line in lines:
        label, rest = line[:INDENT], line[INDENT:]
        parts = wrap(rest, max(width - INDENT, INDENT), break_long_words=False, break_on_hyphens=False)
        for number, part in enumerate(parts):
            text = f"{' ' * INDENT if number else label}{part}".replace(TIED, " ")
            if console.is_terminal and len(text) > console.width:
                text = text.partition(REMARK)[0]
            console.print(text, style=style, markup=False)


def _input_lines(summary: "RunSummary") -> list[str]:
    from spice.data.problems import skipped_in_words

    scan, views = summary.scan, summary.views
    problems = f"; {skipped_in_words(scan.skipped)}" if scan.skipped else ""
    lines = [f"images     {summary.images:,}{_copies(scan.copies)}{problems}"]
    if views:
        precision = ", in 8-bit integers" if views.precision == "int8" else ""
        lines.append(f"encoder    {views.encoder}, images at {views.size} px{precision}")
    return lines + _group_lines(summary)


def _copies(count: int) -> str:
    if count == 1:
        return "; 1 is an exact copy of another"
    return f"; {count:,} are exact copies of others" if count else ""


def _training_lines(summary: "RunSummary") -> list[str]:
    if summary.heads is None:
        return []
    heads, best = summary.heads, summary.heads.selected
    is_sample = heads.learned_from is not None and heads.learned_from < summary.images
    sample = f" on {heads.learned_from:,} images drawn at random" if is_sample else ""
    return [
        f"heads      {heads.heads} trained{sample}; head {best.head} selected at epoch {best.epoch}, "
        f"loss {best.loss:.4f} (no labels used)"
    ]


def _group_lines(summary: "RunSummary") -> list[str]:
    """The number of groups found, other plausible numbers, and whether the two methods agree."""
    from spice.runs.other_group_counts import counts_in_words, nearest_count

    found = summary.howmany
    if found is None or found.clusters is None or summary.reliable is None:
        return []
    others = summary.other_counts
    reason = " (fits your labels best)" if found.fits_labels else ""
    other, advice = found.clusters + 1, "To try another number:"
    if others:
        other = nearest_count(found.clusters, others).clusters
    if found.contradictory:
        other = found.finest_peak if found.finest_peak != found.clusters else found.communities
        advice = f"Two methods disagree ({found.finest_peak} and {found.communities} groups). To compare:"
    command = f"spice cluster {quoted(_as_typed(summary.source))} -k {other}{_out_option(summary)}".replace(" ", TIED)
    return [f"groups     {counts_in_words(found.clusters, others, reason=reason)}", f"           {advice} {command}"]


def _as_typed(source: str | None) -> str:
    """The source as the user probably typed it: relative to the current folder if it is inside."""
    path = Path(source or "IMAGES")
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _out_option(summary: "RunSummary") -> str:
    """`--out RUN`, if the run folder is not the default one."""
    run = Path(summary.run)
    default = Path(f"{Path(summary.source or '').name.partition('.')[0]}.spice")
    return "" if run == default else f" --out {quoted(summary.run)}"


def _show_clusters(console: "Console", clusters: "list[Cluster]") -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("group", "images", "chance"):
        table.add_column(name, justify="right", min_width=len(name))
    table.add_column("", min_width=BAR)
    table.add_column("verdict", min_width=7)
    table.add_column("similar to", justify="right", min_width=10)
    # Only a long name is cut if the terminal is narrow.
    table.add_column("name" if any(cluster.name for cluster in clusters) else "", no_wrap=True, overflow="ellipsis")
    for cluster in clusters:
        table.add_row(*_row(cluster))
    console.print(table, soft_wrap=not console.is_terminal)  # in a file, names are whole


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


def _trust_lines(summary: "RunSummary", reliable: int, *, details: bool) -> list[str]:
    now = _command(summary, "groups")
    lines = [f"edited     these are the groups before your edits; the current ones: {now}"] if summary.edited else []
    lines += [_chance(summary), *_weak(summary)]
    if summary.joint is not None:
        lines.append(f"refined    {_refined(summary.joint)}")
    if details:
        share = percent(reliable, summary.images)
        lines.append(
            f"reliable   {reliable:,} images ({share}): nearly all of their most similar images are in the group"
        )
    if details and summary.labels is not None:
        lines.append(
            f"k-means    {percent(summary.labels.kmeans_reliable, summary.images)} reliable; agreement with these "
            f"groups {summary.labels.kmeans_agreement:.2f} (adjusted Rand index, same features)"
        )
    return lines


def _chance(summary: "RunSummary") -> str:
    """The mean chance, and how to measure the accuracy instead."""
    total = sum(cluster.images * (cluster.chance or 0.0) for cluster in summary.clusters)
    return (
        f"chance     about {percent(total, summary.images)} are in the right group, if images that look alike to the "
        f"encoder belong together. To measure it: {_command(summary, 'check')}"
    )


def _weak(summary: "RunSummary") -> list[str]:
    """The groups to look at first."""
    weak = [cluster.cluster for cluster in summary.clusters if cluster.grade == "weak" and cluster.images]
    if not weak:
        return []
    if len(weak) > max(1, len(summary.clusters) // 2):
        counted = f"{len(weak)} of {len(summary.clusters)} groups resemble several other groups"
        return [f"weak       {counted}: fewer groups (a smaller -k) may be clearer"]
    subject = f"group {weak[0]} resembles" if len(weak) == 1 else f"groups {listed(weak, most=8)} resemble"
    return [f"weak       {subject} several other groups: look there first"]


def _refined(joint: "JointResult") -> str:
    """Whether the result of joint training is used, and what it changed."""
    if not joint.used or joint.before is None or joint.after is None:
        return f"no: joint training was rejected, keeping the stage-2 result ({'; '.join(joint.failed_checks)})"
    before, after = joint.before.neighbor_agreement, joint.after.neighbor_agreement
    verb = "rose" if after > before else "fell"
    return (
        f"yes: it learned from {joint.labeled:,} labels; {joint.moved:,} images moved to another group; neighbor "
        f"agreement {verb} from {before:.3f} to {after:.3f}"
    )


def _times(summary: "RunSummary", *, details: bool) -> str:
    shown = [(step, seconds) for step, seconds in summary.seconds.items() if seconds >= 0.5]
    times = ", ".join(f"{step_in_words(step)} {duration(seconds)}".replace(" ", TIED) for step, seconds in shown)
    return f"time       {duration(sum(summary.seconds.values()))}{f' ({times})' if times and details else ''}"


def _next_lines(summary: "RunSummary") -> list[str]:
    run, command = Path(summary.run), partial(_command, summary)
    stopped = [f"stopped    before {summary.stopped_before}, as requested; resume with: {command('resume')}"]
    if summary.reliable is None:
        return stopped
    large = (run / "labels.parquet").exists() and not (run / "labels.csv").exists()
    tables = ["labels.parquet"] if large else ["labels.csv", "labels.parquet"]
    written = [str(run / tables[0]).replace(" ", TIED), *tables[1:]]
    suggested = any(cluster.name.endswith("?") for cluster in summary.clusters)
    commands = [
        (command("open"), "name and correct the groups"),
        *([(command("name", "--suggest"), "accept the suggested names")] if suggested else []),
        (command("check"), "measure the accuracy"),
        (command("export", "groups --as folders"), "one folder per group"),
        *([(command("export", "labels.csv --as csv"), "the groups as a table of text")] if large else []),
        (command("predict", "MORE_IMAGES"), "sort more images"),
    ]
    return [
        *(stopped if summary.stopped_before else []),
        f"wrote      {', '.join(written)}, model/ and more",
        *(
            f"{'' if number else 'next':<{INDENT}}{line}{REMARK}{remark}".replace(" ", TIED)
            for number, (line, remark) in enumerate(commands)
        ),
    ]


def _command(summary: "RunSummary", name: str, arguments: str = "") -> str:
    """A command to copy, which stays on one line."""
    return f"spice {name} {quoted(summary.run)} {arguments}".strip().replace(" ", TIED)
