"""The report: one HTML file that opens offline, with everything it needs inside."""

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray
from pydantic import JsonValue

from spice.files import written_atomically
from spice.progress import duration
from spice.report import charts
from spice.report.cards import cards
from spice.report.colors import colors
from spice.report.content import Content, read_content
from spice.report.curves import check_rows, curves, score_curves
from spice.report.notices import notices
from spice.runs import Result
from spice.runs.artifacts import REPORT

# Images that can be searched, sorted and pointed at in the page; of more, an even share is shown, and the page says so.
MOST_LISTED = 50_000


def write_report(result: Result) -> Path:
    """(Re)write `report.html` of a finished result."""
    page = render(read_content(result))
    path = result / REPORT
    with written_atomically(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def render(content: Content) -> str:
    """The page as text."""
    environment = Environment(
        loader=PackageLoader("spice.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"share": _share, "duration": duration, "number": _number, "counted": _counted}
    script = "\n".join(_asset(name) for name in ("page.js", "map.js", "browse.js"))
    rows = _listed(content)
    return environment.get_template("report.html").render(
        content=content,
        title=_title(content),
        warnings=notices(content.account.warnings),
        cards=cards(content),
        curves=curves(content),
        checks=check_rows(content.joint) if content.joint else [],
        score_curves=score_curves(content.scores, content.heads) if content.scores else [],
        frame=charts,
        settings=_flat(content.result.entry.settings),
        listed=len(rows),
        style=Markup(_asset("page.css")),
        script=Markup(script),
        # Only this very script may run: markup that found a way in through a file's name could not.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=_json(_data(content, rows)),
        sheets=_sheets(content),
    )


def _title(content: Content) -> str:
    source = content.result.manifest.source
    return Path(source).name if source else "images in memory"


def _listed(content: Content) -> NDArray[np.int64]:
    """Rows that the page lists: all, or an even share together with every image that is on a card."""
    count = len(content.labels.path)
    if count <= MOST_LISTED:
        return np.arange(count)
    even = np.linspace(0, count - 1, MOST_LISTED).astype(np.int64)
    on_cards = [rows for chosen in content.chosen for rows in chosen]
    return np.unique(np.concatenate([even, *on_cards]))


def _data(content: Content, rows: NDArray[np.int64]) -> dict[str, JsonValue]:
    """What the script needs to know of every listed image, column by column; shares in thousandths."""
    labels, sheets, clusters = content.labels.rows(rows), content.sheets, len(content.account.clusters)
    data: dict[str, JsonValue] = {
        "rows": None if len(rows) == len(content.labels.path) else rows.tolist(),
        "path": list(labels.path),
        "cluster": labels.cluster.tolist(),
        "probability": _thousandths(labels.probability),
        "margin": _thousandths(labels.margin),
        "reliability": _thousandths(labels.reliability),
        "reliable": labels.reliable.astype(int).tolist(),
        "other": labels.nearest_other_cluster.tolist(),
        "rank": labels.prototype_rank.tolist(),
        "colors": [list(color) for color in colors(clusters)],
        "x": None,
        "y": None,
        "tiles": None,
        "sheet": None,
    }
    if content.points is not None:
        points = (content.points[rows] * 10000).round().astype(int)
        data |= {"x": points[:, 0].tolist(), "y": points[:, 1].tolist()}
    if sheets is not None:
        place = np.full(len(content.labels.path), -1)
        place[sheets.rows] = np.arange(len(sheets.rows))
        data |= {"tiles": place[rows].tolist(), "sheet": {"columns": sheets.columns, "count": len(sheets.rows)}}
    return data


def _sheets(content: Content) -> list[str]:
    if content.sheets is None:
        return []
    names = (content.pictures / f"sheet-{number}.jpg" for number in range(content.sheets.count))
    return [base64.b64encode(name.read_bytes()).decode() for name in names]


def _flat(settings: JsonValue, name: str = "") -> list[tuple[str, str]]:
    """Settings as lines: `heads.clusters`, `10`."""
    if isinstance(settings, dict):
        prefix = f"{name}." if name else ""
        return [line for key, value in settings.items() for line in _flat(value, f"{prefix}{key}")]
    return [(name, json.dumps(settings))]


def _json(data: JsonValue) -> Markup:
    """JSON that can stand inside a script element, whatever file names hold."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _asset(name: str) -> str:
    return (files("spice.report") / "templates" / name).read_text(encoding="utf-8")


def _thousandths(values: NDArray[np.float32]) -> list[JsonValue]:
    return [int(value) for value in (values * 1000).round()]


def _share(part: float, whole: float = 1.0) -> str:
    return f"{part / whole:.0%}" if whole else "0%"


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
