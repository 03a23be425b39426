"""Tables as text: Markdown, CSV, and the page of all tables in the docs.

Every number comes from the saved cells or is quoted from the paper. Remarks on the numbers are in `remarks.toml`, in
the folder of the tables' JSON files.
"""

import csv
import io
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from spice.benchmark.choice import choices
from spice.benchmark.semi import ALGORITHMS
from spice.benchmark.tables.catalog import TABLES
from spice.benchmark.tables.result import Data, Result, settings_key
from spice.errors import UserError
from spice.wording import counted, quoted

ABSENT = "-"
OUTDATED = "†"  # marks cells that were measured with other settings than those of this version
MEANING = f"{OUTDATED}: measured with other settings than those of this version."
WITHOUT_SPREAD = ("NMI", "ARI")  # their spread is in the JSON file
OVERVIEW = ("k-means", "features + k-means", "features + SCAN", "SCAN", "SPICE-s", "SPICE")
SOURCE = "Niu, Shan, Wang: SPICE: Semantic Pseudo-labeling for Image Clustering (IEEE TIP 2022)"
QUOTED_DATA = "STL-10"  # the data set that all tables of the paper have
Marked = AbstractSet[tuple[str, str]]  # (data set, method) of outdated cells
HEAD = """# The paper's tables, measured

<!-- Made by `spice bench page`; edit the JSON files and remarks.toml in docs/tables, not this page. -->
"""


class Quote(NamedTuple):
    """One number of the paper's Tables II to VIII, quoted."""

    table: str  # "II"
    method: str
    here: str  # the name of the method in our tables; empty if we do not run it
    data: str
    score: str
    mean: float
    std: float | None


@cache
def quotes(table: str) -> tuple[Quote, ...]:
    """All numbers of one of the paper's tables, in the order of the paper."""
    text = files(__package__).joinpath("quoted.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(text.splitlines()))[1:]  # columns in the order of the fields of Quote
    return tuple(
        Quote(number, method, here, data, score, float(mean), float(std) if std else None)
        for number, method, here, data, score, mean, std in rows
        if number == table
    )


def page(folder: Path) -> str:
    """The page of all tables whose JSON files are in `folder`. Names those that were not run."""
    remarks = _remarks(folder / "remarks.toml")
    saved = {name: folder / f"{name}.json" for name in TABLES if (folder / f"{name}.json").is_file()}
    if not saved:
        raise UserError(f"{folder} contains no saved table; run one with: spice bench whole --out {quoted(folder)}")
    results = {name: Result.load(path) for name, path in saved.items()}
    marked = {name: outdated(result) for name, result in results.items()}
    parts = [
        HEAD,
        overview(results["whole"], marked["whole"]) if "whole" in results else "",
        remarks.get("introduction", ""),
    ]
    for name, result in results.items():
        parts += [markdown(result, marked[name]), remarks.get(name, "")]
    if absent := [name for name in TABLES if name not in saved]:
        parts.append(f"Not run: {', '.join(absent)}.\n")
    parts.append(f"## The paper's own tables\n\nQuoted from {SOURCE}.")
    parts += [quoted_table(result.of.paper) for result in results.values() if result.of.paper]
    return "\n".join(part.strip() + "\n" for part in parts if part.strip())


def outdated(result: Result) -> Marked:
    """The (data set, method) of cells that were measured with other settings than those of this version."""
    now = {choice.dataset: choice for choice in choices(result.of, result.size)}
    return {
        (cell.data, cell.method)
        for cell in result.cells
        if cell.data not in now
        or cell.key != settings_key(result.of.which, now[cell.data].of_row(cell.method), cell.method)
    }


def overview(result: Result, marked: Marked = frozenset()) -> str:
    """ACC of a few methods, with a row for each data set."""
    header = ["ACC, mean over seeds", *OVERVIEW]
    rows = [[data.title, *(_cell(result, data, method, "ACC", marked) for method in OVERVIEW)] for data in result.data]
    text = _table(header, rows)
    return f"{text}\n\n{MEANING}" if OUTDATED in text else text


def _remarks(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        remarks = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    unknown = [name for name in remarks if name not in ("introduction", *TABLES)]
    if unknown:
        raise UserError(f"{path} has a remark on {unknown[0]!r}, which is not a table; remove it or correct its name")
    return remarks


def markdown(result: Result, marked: Marked = frozenset()) -> str:
    """The table with a heading, a caption and notes. Marked cells are shown as outdated."""
    table = result.of
    paper = f" (the paper's Table {table.paper})" if table.paper else ""
    parts = [f"## {table.title}{paper}", _caption(result, marked), measured(result, marked)]
    left_out: dict[tuple[str, str], list[str]] = {}  # methods and reason: data sets
    for data in result.data:
        for why in dict.fromkeys(data.left_out.values()):
            methods = ", ".join(_escaped(method) for method, reason in data.left_out.items() if reason == why)
            left_out.setdefault((methods, why), []).append(data.title)
    parts += [f"Not run on {', '.join(sets)}: {methods}, because {why}." for (methods, why), sets in left_out.items()]
    if noted := Counter(cell.method for cell in result.cells if cell.notes):
        runs = ", ".join(f"{_escaped(method)} ({counted(count, 'run')})" for method, count in noted.items())
        parts.append(f"Notes on {runs}: see `notes` in `{result.table}.json`.")
    return "\n\n".join(parts) + "\n"


def measured(result: Result, marked: Marked = frozenset()) -> str:
    """The table: a row for each method, mean ± standard deviation over seeds, the best unsupervised mean in bold."""
    table, main = result.of, result.of.scores[0]
    quoted = {quote.here: quote for quote in quotes(table.paper) if (quote.data, quote.score) == (QUOTED_DATA, main)}
    known = {score for cell in result.cells for score in cell.scores}  # older tables lack some scores
    columns = [(data, score) for data in result.data for score in table.scores if score in known]
    header = ["measured", *(f"{data.title} {score}" if score == main else score for data, score in columns), "s"]
    header += [f"quoted: {QUOTED_DATA} {main}"] if quoted else []
    rows = []
    for method in table.methods:
        cells = [_cell(result, data, method, score, marked) for data, score in columns]
        spent = [result.seconds(data.name, method) for data in result.data]
        seconds = ", ".join(ABSENT if value is None else f"{value:.0f}" for value in spent)
        if any(cell != ABSENT for cell in cells):
            rows.append([_escaped(method), *cells, seconds, *([_quoted(quoted.get(method))] if quoted else [])])
    return _table(header, rows)


def quoted_table(paper: str) -> str:
    """One of the paper's tables, with every row marked as quoted."""
    quoted = quotes(paper)
    scores = dict.fromkeys(quote.score for quote in quoted)
    there = {(quote.data, quote.score) for quote in quoted}
    names = dict.fromkeys(quote.data for quote in quoted)
    columns = [(data, score) for data in names for score in scores if (data, score) in there]
    by_place = {(quote.method, quote.data, quote.score): quote for quote in quoted}
    rows = [
        [f"{_escaped(method)} (quoted)", *(_quoted(by_place.get((method, *column))) for column in columns)]
        for method in dict.fromkeys(quote.method for quote in quoted)
    ]
    return _table([f"Table {paper}", *(f"{data} {score}" for data, score in columns)], rows)


def comma_separated(result: Result) -> str:
    """CSV with a line for each score of each cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["table", "size", "data", "method", "seed", "score", "value", "seconds"])
    for cell in result.cells:
        for score, value in cell.scores.items():
            line = [result.table, result.size, cell.data, cell.method, cell.seed, score, f"{value:.6f}"]
            writer.writerow([*line, f"{cell.seconds:.2f}"])
    return text.getvalue()


def _caption(result: Result, marked: Marked) -> str:
    seeds, best = _listed(result.seeds), result.of.best and len(result.seeds) > 1
    parts = [
        f"`{result.command}`; {result.machine}; {_days(result)}.",
        f"Mean ± standard deviation over seeds {seeds} (no ±: one seed)."
        if len(result.seeds) > 1
        else f"Seed {seeds}.",
        f"After the semicolon: the best {result.of.scores[0]} of all seeds." if best else "",
        "`s`: processor seconds of the method on each data set, without features and views.",
        MEANING if marked else "",
    ]
    processors = _processors(result)
    about = [*(f"{data.about}." for data in result.data), *([processors] if processors else [])]
    return "\n".join([" ".join(part for part in parts if part), *(f"- {line}" for line in about)])


def _days(result: Result) -> str:
    days = sorted({cell.at[:10] for cell in result.cells})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "never"


def _processors(result: Result) -> str:
    """The processors of the cells. They round differently, so trained networks differ."""
    counts = result.processors
    if not any(counts):
        return ""
    if len(counts) == 1:
        return f"Processor: {next(iter(counts))}."
    named = ", ".join(
        f"{name or 'not recorded'} ({count} of {counted(len(result.cells), 'run')})" for name, count in counts.items()
    )
    return f"Processors: {named}."


def _cell(result: Result, data: Data, method: str, score: str, marked: Marked) -> str:
    figure = result.figure(data.name, method, score)
    if figure is None:
        return ABSENT
    text = _number(figure.mean, None if score in WITHOUT_SPREAD else figure.std)
    if score == result.of.scores[0]:
        runs = [cell for cell in result.cells if (cell.data, cell.method) == (data.name, method)]
        text += f" ({figure.seeds} seeds)" * (1 < figure.seeds < len(result.seeds))
        if result.of.best and len(runs) > 1:
            text += f"; {max(cell.scores[score] for cell in runs):.3f}"
        text += f" {OUTDATED}" * ((data.name, method) in marked)
    return f"**{text}**" if method not in ALGORITHMS and figure.mean >= _best(result, data, score) else text


def _best(result: Result, data: Data, score: str) -> float:
    """The best mean of the methods that get no true labels."""
    others = (method for method in result.of.methods if method not in ALGORITHMS)
    return max(figure.mean for method in others if (figure := result.figure(data.name, method, score)) is not None)


def _quoted(quote: Quote | None) -> str:
    return ABSENT if quote is None else _number(quote.mean, quote.std)


def _number(mean: float, std: float | None) -> str:
    return f"{mean:.3f}" if std is None else f"{mean:.3f} ± {std:.3f}"


def _escaped(name: str) -> str:
    return name.replace("*", "\\*")


def _listed(seeds: Sequence[int]) -> str:
    if list(seeds) == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 1:
        return f"{seeds[0]}-{seeds[-1]}"
    return ", ".join(map(str, seeds))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
