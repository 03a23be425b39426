"""The results of a fit: one line per image in the user's order, the groups after edits, and pictures.

Shapes: N images, L lines: the images in the user's order, including those that could not be read.
"""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from spice.errors import UserError
from spice.notebook.order import filled
from spice.notebook.sheet import Section, contact_sheet
from spice.pipeline.stored_images import stored_images
from spice.report.pictures import as_jpeg, as_picture
from spice.runs import Groups, Labels, Result, read_manifest
from spice.runs.folder import is_run
from spice.runs.groups import Base, unedited
from spice.tables import Column

# Without a run folder, pictures are kept in memory: at most this many per group and in total, of this size in pixels.
_PER_GROUP, _IN_TOTAL, _SIDE = 48, 2000, 96
_PER_ROW = 10  # pictures of each group if all groups are shown
_FIRST_COLUMNS = ("path", "group", "name", "chance")


@dataclass(eq=False)
class Answers:
    """The results of a fit, and pictures of the most typical images."""

    labels: Labels
    clusters: int
    rows: NDArray[np.int64]  # (L,) the row of each line; -1: it could not be read
    names: list[str]  # (L,)
    run: Path | None  # the run folder, if there is one
    result: str  # the name of the result in the run folder
    pictures: dict[int, bytes]  # JPEG by row, if there is no run folder

    def table(self) -> Any:
        """One line per image, as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise UserError("table() returns a pandas DataFrame; install it with: pip install pandas") from None
        return pandas.DataFrame(self.columns())

    def columns(self) -> dict[str, Column]:
        """Every column, in the user's order."""
        found: dict[str, Column] = {**self.labels._asdict(), **self.groups().columns()}
        found = {name: _ordered(column, self.rows) for name, column in found.items()} | {"path": self.names}
        first = {name: found.pop(name) for name in _FIRST_COLUMNS}
        return {**first, **found}

    def groups(self) -> Groups:
        """The groups, with edits made since the fit."""
        saved = self._saved()
        if saved is not None:
            return saved.groups
        return unedited(Base.of(self.result, self.labels, self.labels.path, clusters=self.clusters))

    def sheet(self, group: int | str | None, images: int | None) -> Image.Image:
        """The most typical images of one group, or of all."""
        groups = self.groups()
        if group is None:
            return contact_sheet([self._section(groups, one, images or _PER_ROW) for one in groups.active])
        return contact_sheet([self._section(groups, _group_number(groups, group), images or _PER_GROUP)])

    def summary(self) -> str:
        """`96 images, 4 groups, mean chance 92%`."""
        unread = int((self.rows < 0).sum())
        parts = [f"{len(self.labels.path):,} images", f"{len(self.groups().active):,} groups"]
        parts += [f"mean chance {self.labels.chance.mean():.0%}"]
        return ", ".join(parts + ([f"{unread:,} could not be read"] if unread else []))

    def _section(self, groups: Groups, group: int, images: int) -> Section:
        members = np.flatnonzero(groups.shown == group)
        chance = float(self.labels.chance[members].mean()) if len(members) else 0.0
        name = f"{groups.names[group]} (group {group})" if group in groups.names else f"group {group}"
        title = f"{name}: {len(members):,} images, mean chance {chance:.0%}"
        typical = members[self.labels.prototype_rank[members].argsort(kind="stable")]
        return Section(title, self._pictures(typical, images))

    def _pictures(self, rows: NDArray[np.int64], count: int) -> list[Image.Image]:
        saved = self._saved()
        if saved is None:
            kept = [self.pictures[row] for row in rows.tolist() if row in self.pictures][:count]
            return [Image.open(BytesIO(data)) for data in kept]
        return pictures_of(saved, rows[:count])

    def _saved(self) -> Result | None:
        """The result in the run folder; None if the folder or this result no longer exists."""
        if self.run is None or not is_run(self.run):
            return None
        manifest = read_manifest(self.run)
        return Result(self.run, manifest, self.result) if self.result in manifest.results else None


def answers_of(result: Result, rows: NDArray[np.int64], names: list[str], *, temporary: bool) -> Answers:
    """The answers of a result, with pictures if its run folder is temporary."""
    labels, clusters = result.labels, result.answer.clusters
    pictures = _typical_pictures(result, labels, clusters) if temporary else {}
    return Answers(labels, clusters, rows, names, None if temporary else result.run.absolute(), result.name, pictures)


def pictures_of(result: Result, rows: NDArray[np.int64]) -> list[Image.Image]:
    """The images in these rows, at the size that the encoder used."""
    if not len(rows):
        return []
    taken = stored_images(result).take(torch.from_numpy(rows)).numpy()
    return [as_picture(pixels) for pixels in taken]


def _typical_pictures(result: Result, labels: Labels, clusters: int) -> dict[int, bytes]:
    per_group = min(_PER_GROUP, max(1, _IN_TOTAL // clusters))
    rows = np.flatnonzero(labels.prototype_rank < per_group)
    small = (picture.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS) for picture in pictures_of(result, rows))
    return {int(row): as_jpeg(picture, 85) for row, picture in zip(rows, small, strict=True)}


def _group_number(groups: Groups, group: int | str) -> int:
    if group in groups.active:
        return int(group)
    named = [number for number, name in groups.names.items() if name == group]
    if not named:
        known = ", ".join(str(groups.names.get(one, one)) for one in groups.active[:20])
        raise UserError(f"there is no group {group!r}; the groups are: {known}")
    return named[0]


def _ordered(column: Column, rows: NDArray[np.int64]) -> Column:
    if isinstance(column, list):
        return [column[row] if row >= 0 else "" for row in rows]
    return filled(column, rows)
