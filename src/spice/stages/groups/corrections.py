"""The corrections that `learn` learns from: placed images, typical images of each group, pairs, and rejected groups.

Shapes: N images, D feature width, G groups, F placed images, T typical images, P pairs, R rejections.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.errors import UserError
from spice.runs.edits import Edits, Learned, Pair
from spice.runs.groups import Base, Groups
from spice.trust.vectors import unit_length

# Typical images of a group: as many as its card shows, so whoever named the group has seen them.
TYPICAL = 8
# A part of a group (its images from one cluster) has its own typical images if it is at least this share of the group.
SMALLEST_PART = 0.2

Rows = NDArray[np.int64]


class Corrections(NamedTuple):
    """What to learn. Groups are numbered 0 to G - 1, in the order of `numbers`."""

    numbers: list[int]  # (G,) the numbers of the groups in the result; groups set aside come last
    aside: Rows  # (N,) the group set aside that an image is in; -1: none
    fixed: Rows  # (F,) images that a person placed
    fixed_group: Rows  # (F,)
    typical: Rows  # (T,) images near the center of their group that were not placed by a person
    typical_group: Rows  # (T,)
    rejected: Rows  # (R, 2) an image and a group that it does not belong to
    same: Rows  # (P, 2) images that belong together
    different: Rows  # (P', 2) images that do not belong together
    part: Rows  # (N,) part of a former group: a number for each cluster and group; -1: placed by a person

    @property
    def aside_groups(self) -> Rows:
        """The groups that are set aside. No image joins or leaves them, but new images are recognized as theirs."""
        return np.unique(self.aside[self.aside >= 0])


def corrections_from_edits(base: Base, groups: Groups, edits: Edits, features: NDArray[np.float32]) -> Corrections:
    """The corrections in the edits of a result. `groups` are the groups before anything was learned."""
    active = [number for number in groups.active if number in groups.group]
    set_aside = [number for number in sorted(groups.set_aside) if number in groups.group]
    numbers = [*active, *set_aside]
    place = {number: position for position, number in enumerate(numbers)}
    fixed = np.flatnonzero(groups.by_person & np.isin(groups.group, active))
    pairs = {kind: _pairs(base, edits, kind) for kind in ("same", "different")}
    rejected = [(row, place[group]) for row, out in groups.rejected.items() for group in sorted(out) if group in active]
    if not len(fixed) and not rejected and not groups.touched and not any(len(found) for found in pairs.values()):
        raise UserError("nothing to learn from yet; name some groups or move some images first")
    if len(active) < 2:
        raise UserError("learning needs at least two groups")
    typical = _typical(base, groups, numbers, features)
    return Corrections(
        numbers=numbers,
        aside=np.array([place[group] if group in set_aside else -1 for group in groups.group.tolist()]),
        fixed=fixed,
        fixed_group=_places(place, groups.group[fixed]),
        typical=typical,
        typical_group=_places(place, groups.group[typical]),
        rejected=np.array(rejected, dtype=np.int64).reshape(-1, 2),
        part=_parts(base, groups),
        **pairs,
    )


def edits_before_learning(edits: Edits) -> Edits:
    """The active edits without what was learned, so that learning again starts from the same groups."""
    return Edits(edits=[edit for edit in edits.active() if not isinstance(edit.operation, Learned)])


def _pairs(base: Base, edits: Edits, kind: str) -> Rows:
    """(P, 2) rows of the pairs of one kind. Among exact copies, the first counts."""
    made = [edit.operation for edit in edits.of_result(base.name) if isinstance(edit.operation, Pair)]
    rows = [(base.rows([pair.first]), base.rows([pair.second])) for pair in made if pair.kind == kind]
    return np.array([(a[0], b[0]) for a, b in rows if len(a) and len(b)], dtype=np.int64).reshape(-1, 2)


def _typical(base: Base, groups: Groups, numbers: list[int], features: NDArray[np.float32]) -> Rows:
    """The images nearest to the center of each part of each group, without those that a person placed."""
    found = []
    for number in numbers:
        members = np.flatnonzero((groups.group == number) & ~groups.by_person)
        for cluster in np.unique(base.cluster[members]):
            part = members[base.cluster[members] == cluster]
            if len(part) >= SMALLEST_PART * len(members):
                found.append(part[_nearest_to_center(features[part])][:TYPICAL])
    return np.sort(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def _parts(base: Base, groups: Groups) -> Rows:
    """The part of every image (N,): a number for each combination of cluster and group."""
    part = base.cluster.astype(np.int64) * (int(groups.group.max()) + 2) + groups.group + 1
    return np.where(groups.by_person, -1, part)


def _nearest_to_center(features: NDArray[np.float32]) -> Rows:
    """The order of images by cosine to their mean, nearest first."""
    unit = unit_length(features)
    order: Rows = np.argsort(-(unit @ unit.mean(axis=0)), kind="stable")
    return order


def _places(place: dict[int, int], groups: NDArray[np.int32]) -> Rows:
    return np.array([place[number] for number in groups.tolist()], dtype=np.int64)
