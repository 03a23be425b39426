"""The groups of exported images, with labels that other programs accept. Empty groups keep their numbers.

Shapes: n images.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.runs.groups import NONE, Groups
from spice.tables import Column


class Classes(NamedTuple):
    """The group of every exported image."""

    group: NDArray[np.int32]  # (n,)
    by_person: NDArray[np.bool_]  # (n,)
    labels: dict[int, str]  # of all groups by number, empty ones too: the name, or `cluster_03` where there is none
    named: frozenset[int]

    def label(self, row: int) -> str:
        """What to call the group of an image."""
        return self.labels[int(self.group[row])]

    def folders(self) -> list[str]:
        """(n,) the name of each image's group, as a folder can be called on every system."""
        names = folder_names(self.labels)
        return [names[group] for group in self.group.tolist()]

    def columns(self) -> dict[str, Column]:
        """As columns of a table."""
        names = [self.labels[group] if group in self.named else "" for group in self.group.tolist()]
        return {"group": self.group, "name": names, "by_person": self.by_person}


def classes_of(groups: Groups, rows: NDArray[np.int64]) -> Classes:
    """The groups of the images in these rows; each must be in a group."""
    shown = groups.shown[rows]
    assert not (shown == NONE).any()
    labels = {number: groups.names.get(number) or f"cluster_{number:02d}" for number in groups.active}
    return Classes(shown, groups.by_person[rows], labels, frozenset(groups.names))


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
