"""The report: one HTML file that opens offline, with everything it needs inside."""

import base64
import hashlib
import json
import re
from importlib.resources import files
from itertools import chain
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray
from pydantic import JsonValue

from spice.files import write_text
from spice.progress import duration
from spice.report import charts
from spice.report.cards import cards
from spice.report.colors import colors
from spice.report.content import Content, read_content
from spice.report.curves import check_rows, curves, score_curves
from spice.report.howmany import how_many_section
from spice.report.tree import tree_section
from spice.runs import Result, RunFolder, open_result
from spice.runs.artifacts import REPORT
from spice.wording import counted, percent, quoted, step_in_words

# Images that can be searched and sorted in the report. Of a larger collection, it lists an even sample, and says so.
MOST_LISTED = 50_000
# Modules that the report shares with the explorer. Each comes after those that it imports.
_SHARED = ("dom.js", "thumbs.js", "points.js", "labels.js", "plot.js")


def write_report(result: Result) -> Path:
    """Write `report.html` of a finished result."""
    path = result / REPORT
    write_text(path, render(read_content(result)))
    return path


def rewrite_report(result: Result) -> Path:
    """Write the report of the current result again, and its link or copy at the top of the run folder."""
    path = write_report(result)
    RunFolder.open(result.run).link()
    return path


def renew_report(run: Path) -> None:
    """Rewrite the report after an edit, if there is one."""
    result = open_result(run)
    if (result / REPORT).exists():
        rewrite_report(result)


def environment() -> Environment:
    """Jinja with our templates. Every value is escaped."""
    found = Environment(
        loader=PackageLoader("spice.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    found.filters |= {
        "share": percent,
        "duration": duration,
        "number": "{:,}".format,
        "counted": counted,
        "quoted": quoted,
        "step": step_in_words,
    }
    return found


def render(content: Content) -> str:
    """The page as text."""
    parts = [*map(_inlined, _SHARED), *map(_asset, ("page.js", "map.js", "browse.js"))]
    script = "\n".join(['"use strict";', *parts])
    rows, result = _listed(content), content.result
    template = environment().get_template("report.html")
    return template.render(
        content=content,
        result=result,
        title=result.manifest.title,
        cards=cards(content),
        howmany=how_many_section(content),
        tree=tree_section(content),
        curves=curves(result),
        checks=check_rows(result.joint) if result.joint else [],
        score_curves=score_curves(result.scores, result.heads) if result.scores else [],
        frame=charts,
        settings=_flat(result.entry.settings),
        listed=len(rows),
        style=Markup(_asset("page.css", "shared")),  # our own file  # nosec B704
        script=Markup(script),  # our own file, and data from _json  # nosec B704
        # Only this script may run, so markup in a file name cannot.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=_json(_data(content, rows)),
        sheets=_sheets(content),
    )


def _listed(content: Content) -> NDArray[np.int64]:
    """Rows that the report lists: all, or an even sample and every image that another section shows."""
    count = len(content.labels.path)
    if count <= MOST_LISTED:
        return np.arange(count)
    even = np.linspace(0, count - 1, MOST_LISTED).astype(np.int64)
    flags = content.image_flags
    flagged = np.array([*flags.outliers, *chain(*flags.sets)], dtype=np.int64)
    return np.unique(np.concatenate([even, flagged, *chain(*content.card_images)]))


def _data(content: Content, rows: NDArray[np.int64]) -> dict[str, JsonValue]:
    """The data of every listed image, column by column; shares in thousandths."""
    labels, sheets, images = content.labels.rows(rows), content.sheets, len(content.labels.path)
    data: dict[str, JsonValue] = {
        "rows": None if len(rows) == images else rows.tolist(),
        "path": list(labels.path),
        "cluster": labels.cluster.tolist(),
        "chance": _thousandths(labels.chance),
        "confidence": _thousandths(labels.confidence),
        "margin": _thousandths(labels.margin),
        "reliability": _thousandths(labels.reliability),
        "reliable": labels.reliable.astype(int).tolist(),
        "other": labels.nearest_other_cluster.tolist(),
        "rank": labels.prototype_rank.tolist(),
        "threshold": content.result.answer.threshold,
        "names": [name.title for name in content.names],
        "guessed": [name.guessed for name in content.names],
        "colors": [list(color) for color in colors(len(content.card_images))],
        **dict.fromkeys(("x", "y", "tiles", "sheet")),
    }
    if content.points is not None:
        x, y = (content.points[rows].T * 10000).round().astype(int).tolist()
        data |= {"x": x, "y": y}
    if sheets is not None:
        place = np.full(images, -1)
        place[sheets.rows] = np.arange(len(sheets.rows))
        data |= {"tiles": place[rows].tolist(), "sheet": {"columns": sheets.columns, "count": len(sheets.rows)}}
    return data


def _sheets(content: Content) -> list[str]:
    count = content.sheets.count if content.sheets else 0
    paths = (content.pictures / f"sheet-{number}.jpg" for number in range(count))
    return [base64.b64encode(path.read_bytes()).decode() for path in paths]


def _flat(settings: JsonValue, name: str = "") -> list[tuple[str, str]]:
    """Settings as lines: `heads.clusters`, `10`."""
    if isinstance(settings, dict):
        prefix = f"{name}." if name else ""
        return [line for key, value in settings.items() for line in _flat(value, f"{prefix}{key}")]
    return [(name, json.dumps(settings))]


def _json(data: JsonValue) -> Markup:
    """JSON that is safe inside a script element, whatever the file names are."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # nosec B704


def _asset(name: str, folder: str = "templates") -> str:
    return (files("spice.report") / folder / name).read_text(encoding="utf-8")


def _inlined(name: str) -> str:
    """A module of the explorer without its imports and exports, as part of the report's one script."""
    without_imports = re.sub(r"^import .*\n", "", _asset(name, "shared"), flags=re.MULTILINE)
    return re.sub(r"^export ", "", without_imports, flags=re.MULTILINE)


def _thousandths(values: NDArray[np.float32]) -> JsonValue:
    thousandths: JsonValue = (values * 1000).round().astype(int).tolist()
    return thousandths
