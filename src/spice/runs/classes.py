"""The groups of exported images, with labels that other programs accept. Empty groups keep their numbers.

Shapes: n images.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.runs.groups import NONE, Groups
from spice.runs.labels import Labels
from spice.runs.table import Column


class Classes(NamedTuple):
    """The group of every exported image."""

    group: NDArray[np.int32]  # (n,)
    by_person: NDArray[np.bool_]  # (n,)
    labels: dict[int, str]  # of all groups by number, empty ones too: the name, or `cluster_03` where there is none
    named: frozenset[int]

    def label(self, row: int) -> str:
        """What to call the group of an image."""
        return self.labels[int(self.group[row])]

    def folder(self, row: int) -> str:
        """The same as the name of a folder on every system."""
        group = int(self.group[row])
        return folder_names(self.labels)[group]

    def columns(self) -> dict[str, Column]:
        """As columns of a table."""
        names = [self.labels[group] if group in self.named else "" for group in self.group.tolist()]
        return {"group": self.group, "name": names, "by_person": self.by_person}


def classes_of(groups: Groups, rows: NDArray[np.int64]) -> Classes:
    """The groups of the images in these rows; each must be in a group."""
    shown = groups.shown[rows]
    assert not (shown == NONE).any()
    labels = {
        number: groups.names.get(number) or f"cluster_{number:02d}"
        for number in groups.existing
        if number not in groups.set_aside
    }
    return Classes(shown, groups.by_person[rows], labels, frozenset(groups.names))


def clusters_of(labels: Labels) -> Classes:
    """The clusters, where nobody has edited anything."""
    numbers = range(int(labels.cluster.max(initial=-1)) + 1)
    by_person = np.zeros(len(labels.path), dtype=np.bool_)
    return Classes(labels.cluster, by_person, {number: f"cluster_{number:02d}" for number in numbers}, frozenset())


def folder_names(labels: dict[int, str]) -> dict[int, str]:
    """A folder name per group: letters that a file system refuses are replaced, and no two are the same."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for number, label in labels.items():
        plain = re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", label).strip(" .")[:80] or f"cluster_{number:02d}"
        name = plain if plain.casefold() not in taken else f"{plain}_{number:02d}"
        taken.add(name.casefold())
        found[number] = name
    return found
