"""What the server sends to the page: facts about the run, and columns with one number per image."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from spice.runs.edits import Edit
from spice.trust.check import Estimate
from spice.web.groups import cards, suggested_merges
from spice.web.session import State

Column = NDArray[np.int32] | NDArray[np.uint16] | NDArray[np.uint8]


def describe(state: State) -> dict[str, JsonValue]:
    """Everything except the columns with one entry per image."""
    result = state.opened.result
    return {
        "version": state.version,
        "title": result.manifest.title,
        "result": result.name,
        "images": result.scan.identity,
        "count": len(state.opened.labels.path),
        "side": state.opened.pictures.side,
        "map": state.opened.points is not None,
        "tree": state.opened.tree is not None,
        "groups": cards(state),
        "merges": [suggestion._asdict() for suggestion in suggested_merges(state)],
        "undo": _last(state.edits.undoable),
        "redo": _last(state.edits.redoable),
    }


def describe_check(state: State, images: int) -> dict[str, JsonValue]:
    """A check by hand: the next two questions, and what the answers so far show."""
    found, asked = state.checks.summary(), state.checks.questions(images)
    return {
        "images": min(images, int((state.groups.shown >= 0).sum())),
        "left": len(asked),
        "questions": [{"row": one.row, "group": one.group, "centers": list(one.centers)} for one in asked[:2]],
        "answers": {"yes": found.yes, "no": found.no, "unsure": found.unsure},
        "accuracy": _estimate(found.accuracy),
        "groups": [{"group": number, **_estimate(part)} for number, part in found.groups.items()],
        "promise": found.promise,
    }


def _estimate(found: Estimate | None) -> dict[str, JsonValue]:
    return {} if found is None else {"value": found.value, "low": found.low, "high": found.high, "words": found.words}


def paths(state: State) -> JsonValue:
    """File names, in the order of the label table."""
    return list(state.opened.labels.path)


def column(state: State, name: str) -> Column | None:
    """One number per image, little-endian; chances in thousandths, map coordinates in ten-thousandths."""
    make = _COLUMNS.get(name)
    return make(state) if make is not None else None


def _coordinate(state: State, axis: int) -> Column | None:
    points = state.opened.points
    return None if points is None else (points[:, axis] * 10000).round().astype("<u2")


_COLUMNS: dict[str, Callable[[State], Column | None]] = {
    "group": lambda state: state.groups.group.astype("<i4"),
    "person": lambda state: state.groups.by_person.astype("u1"),
    "chance": lambda state: (state.checks.chances * 1000).round().astype("<u2"),
    "reliable": lambda state: state.opened.labels.reliable.astype("u1"),
    "outlier": lambda state: state.opened.labels.outlier.astype("u1"),
    "rank": lambda state: state.opened.labels.prototype_rank.astype("<i4"),
    "x": lambda state: _coordinate(state, 0),
    "y": lambda state: _coordinate(state, 1),
}


def _last(edit: Edit | None) -> JsonValue:
    """An edit without its images, of which there may be many."""
    if edit is None:
        return None
    operation: dict[str, JsonValue] = edit.operation.model_dump(mode="json")
    short = {key: value for key, value in operation.items() if key in ("kind", "group", "groups", "name", "aside")}
    images = operation.get("images")
    return {**short, "images": len(images) if isinstance(images, list) else None}
