"""The groups that people see: the clusters of a result after all edits (`spice.runs.apply_edits` applies them).

A group has a number. Clusters without edits keep theirs, a merged group keeps the number of its first part, and new
groups (from a split or from moved images) get numbers from K on, so no number is ever used twice in one result.

Shapes: N images, K clusters.
"""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spice.runs.edits import ImageId
from spice.runs.labels import Labels
from spice.tables import Column, read_parquet, write_parquet

NONE = -1  # the group of an image that is in no group
_COLUMNS = ("cluster", "next_cluster", "reliability")  # of a base, one number per image


@dataclass(frozen=True, eq=False)
class Base:
    """A result before any edit: the head's answer, and what identifies its images. Rows as in `labels.parquet`."""

    name: str
    _: KW_ONLY
    clusters: int
    hashes: Sequence[str]
    paths: Sequence[str]
    cluster: NDArray[np.int32]  # (N,)
    next_cluster: NDArray[np.int32]  # (N,)
    reliability: NDArray[np.float32]  # (N,)

    @classmethod
    def of(cls, name: str, labels: Labels, hashes: Sequence[str], *, clusters: int) -> "Base":
        """The base with these labels."""
        return cls(
            name,
            clusters=clusters,
            hashes=hashes,
            paths=labels.path,
            cluster=labels.cluster,
            next_cluster=labels.nearest_other_cluster,
            reliability=labels.reliability,
        )

    def __len__(self) -> int:
        return len(self.hashes)

    def rows(self, images: Iterable[ImageId]) -> NDArray[np.int64]:
        """The rows of these images: all exact copies of each, or the image at that path if its content has changed."""
        by_hash, by_path = self._places
        found = (by_hash.get(image.hash) or by_path.get(image.path, []) for image in images)
        return np.unique(np.array([row for rows in found for row in rows], dtype=np.int64))

    def image(self, row: int) -> ImageId:
        """Identifies the image in this row in an edit."""
        return ImageId(self.hashes[row], self.paths[row])

    def images(self, rows: Iterable[int]) -> list[ImageId]:
        """Identifies the images in these rows in an edit."""
        return [self.image(int(row)) for row in rows]

    @cached_property
    def _places(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        by_hash: dict[str, list[int]] = {}
        for row, content in enumerate(self.hashes):
            by_hash.setdefault(content, []).append(row)
        return by_hash, {path: [row] for row, path in enumerate(self.paths)}

    def save(self, file: Path) -> None:
        """Save what edits refer to, before the result itself is deleted."""
        names = {"hash": pa.array(self.hashes, pa.string()), "path": pa.array(self.paths, pa.string())}
        table = pa.table(names | {column: getattr(self, column) for column in _COLUMNS})
        table = table.replace_schema_metadata({"clusters": str(self.clusters)})
        file.parent.mkdir(exist_ok=True)
        write_parquet(file, table)

    @classmethod
    def load(cls, name: str, file: Path) -> "Base":
        """Read what `save` wrote."""
        table = read_parquet(file)
        return cls(
            name,
            clusters=int(table.schema.metadata[b"clusters"]),
            hashes=table["hash"].to_pylist(),
            paths=table["path"].to_pylist(),
            **{column: table[column].to_numpy() for column in _COLUMNS},
        )


class Groups(NamedTuple):
    """The edited answer."""

    group: NDArray[np.int32]  # (N,) number of each image's group; -1: in no group
    by_person: NDArray[np.bool_]  # (N,) whether a person put this image into its group
    names: dict[int, str]  # of the groups that have a name
    existing: list[int]  # all numbers in use, ascending, including empty groups and groups set aside
    set_aside: frozenset[int]  # groups that a person set aside
    of_cluster: NDArray[np.int32]  # (K,) the group that a new image of each cluster belongs to
    rejected: dict[int, frozenset[int]]  # by row: groups that a person took the image out of
    touched: frozenset[int]  # groups that a person named, merged, split or moved images to
    model: str | None = None  # folder of the model that learned from the edits; None: the result's own
    of_output: NDArray[np.int32] | None = None  # the group of each of its outputs

    @property
    def active(self) -> list[int]:
        """The numbers of the groups that are not set aside, ascending."""
        return [group for group in self.existing if group not in self.set_aside]

    @property
    def shown(self) -> NDArray[np.int32]:
        """(N,) number of each image's group; -1 for those in no group and those in a group that is set aside."""
        aside = np.isin(self.group, list(self.set_aside))
        return np.where(aside, NONE, self.group).astype(np.int32)

    def name(self, group: int) -> str:
        """What to call a group: its name, or `group 3`."""
        return self.names.get(group) or ("no group" if group == NONE else f"group {group}")

    def predicted(self, output: NDArray[np.int32]) -> dict[str, Column]:
        """Group and name of new images, from the outputs (Q,) of the model that `model` names, or of the result's."""
        of_output = self.of_cluster if self.of_output is None else self.of_output
        group = of_output[output]
        group = np.where(np.isin(group, list(self.set_aside)), NONE, group).astype(np.int32)
        return {"group": group, "name": [self.names.get(one, "") for one in group.tolist()]}

    def columns(self) -> dict[str, Column]:
        """The columns of `labels.csv` that `Labels` does not have."""
        shown = self.shown
        named = [self.names.get(group, "") for group in shown.tolist()]
        return {"group": shown, "name": named, "by_person": self.by_person}


def unedited(base: Base) -> Groups:
    """The groups of a result without edits: its clusters."""
    return Groups(
        group=base.cluster.astype(np.int32),
        by_person=np.zeros(len(base), dtype=np.bool_),
        names={},
        existing=list(range(base.clusters)),
        set_aside=frozenset(),
        of_cluster=np.arange(base.clusters, dtype=np.int32),
        rejected={},
        touched=frozenset(),
    )
