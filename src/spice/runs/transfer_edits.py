"""Transfers names and corrections to another result of the run: other images, another K, another head.

Groups of two results are matched by the images that they share. Images that a person placed keep their group.

- **Other images, same K**: images of a group that a person edited (named, merged, split, moved images to) stay in it;
  new images follow the head.
- **Same images, same K** (such as `spice refine`): clusters follow the group that most of their images were in.
- **Another K**: the user wants to see other groups. A name goes to the cluster that shares the most images (one to
  one, Hungarian method), if more than half of that cluster had the name.

Shapes: N images of the new result, G groups of the old one, K clusters of the new one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.runs.groups import NONE, Base, Groups, unedited


class _Shared(NamedTuple):
    """What two results have in common."""

    old_row: NDArray[np.int64]  # (N,) row in the old result; -1: a new image
    old_group: NDArray[np.int64]  # (N,) group in the old result; -1: none
    by_person: NDArray[np.bool_]  # (N,) whether a person put it there
    counts: NDArray[np.int64]  # (G, K) shared images of each old group and new cluster
    targets: dict[int, int]  # old group -> the new cluster that takes its name


def transfer_edits(old: Base, edited: Groups, new: Base) -> Groups:
    """The groups of `new`, with the names and corrections that people made in `old`."""
    shared, start = _share(old, edited, new), unedited(new)
    if old.clusters != new.clusters:
        return _keep_names(edited, start, shared)
    return _keep_groups(edited, start, shared, images_too=set(old.hashes) != set(new.hashes))


def _share(old: Base, edited: Groups, new: Base) -> _Shared:
    from scipy.optimize import linear_sum_assignment  # late: slow to import

    old_row = _same_images(old, new)
    known = old_row >= 0
    old_group = np.full(len(new), NONE, dtype=np.int64)
    old_group[known] = edited.group[old_row[known]]
    by_person = np.zeros(len(new), dtype=np.bool_)
    by_person[known] = edited.by_person[old_row[known]]
    counts = np.zeros((len(edited.existing), new.clusters), dtype=np.int64)  # (G, K)
    grouped = old_group != NONE
    np.add.at(counts, (np.searchsorted(edited.existing, old_group[grouped]), new.cluster[grouped]), 1)
    olds, clusters = linear_sum_assignment(counts, maximize=True)
    targets = {
        edited.existing[place]: int(cluster)
        for place, cluster in zip(olds.tolist(), clusters, strict=True)
        if 2 * counts[place, cluster] > counts[:, cluster].sum()
    }
    return _Shared(old_row, old_group, by_person & grouped, counts, targets)


def _same_images(old: Base, new: Base) -> NDArray[np.int64]:
    """(N,) the row in `old` of every image of `new`, by content or else by path; -1 if there is none."""
    by_hash = {content: row for row, content in reversed(list(enumerate(old.hashes)))}
    by_path = {path: row for row, path in enumerate(old.paths)}
    # Exact copies may have been placed apart only by path, so the same path with the same content comes first.
    rows = [
        by_path[path]
        if path in by_path and (old.hashes[by_path[path]] == content or content not in by_hash)
        else by_hash.get(content, -1)
        for content, path in zip(new.hashes, new.paths, strict=True)
    ]
    return np.array(rows, dtype=np.int64)


def _keep_groups(edited: Groups, start: Groups, shared: _Shared, *, images_too: bool) -> Groups:
    group, of_cluster, free = start.group.copy(), start.of_cluster.copy(), len(start.existing)
    number: dict[int, int] = {}  # in the new result, of every group that is kept
    for kept in sorted(edited.touched & set(edited.existing)):
        number[kept] = shared.targets.get(kept, free)
        free += number[kept] == free
    for cluster, counts in enumerate(shared.counts.T):
        owner = edited.existing[int(counts.argmax())]
        if owner in number and 2 * counts.max() > counts.sum():
            of_cluster[cluster] = number[owner]
    stays = shared.old_group != NONE if images_too else shared.by_person
    group[~stays] = of_cluster[group[~stays]]
    for kept, now in number.items():
        group[stays & (shared.old_group == kept)] = now
    names = {number[kept]: name for kept, name in edited.names.items()}
    merged = {cluster for cluster in start.existing if of_cluster[cluster] != cluster}
    dissolved = set(number.values()) - set(start.existing) - set(names)
    emptied = {one for one in merged | dissolved if one not in group}
    return start._replace(
        group=group,
        by_person=shared.by_person,
        names=names,
        existing=sorted((set(start.existing) | set(number.values())) - emptied),
        set_aside=frozenset(number[kept] for kept in edited.set_aside) - emptied,
        of_cluster=of_cluster,
        rejected=_rejected(edited, shared, number),
        touched=frozenset(number.values()) - emptied,
    )


def _rejected(edited: Groups, shared: _Shared, number: dict[int, int]) -> dict[int, frozenset[int]]:
    """Groups that images do not belong to, by their rows and numbers in the new result."""
    return {
        row: frozenset(number[group] for group in edited.rejected[before] if group in number)
        for row, before in enumerate(shared.old_row.tolist())
        if before in edited.rejected
    }


def _keep_names(edited: Groups, start: Groups, shared: _Shared) -> Groups:
    group, free, number = start.group.copy(), len(start.existing), {}
    # Only named groups survive: an unnamed one means nothing among other groups.
    placed = shared.by_person & np.isin(shared.old_group, list(edited.names))
    for named in edited.names:
        stay = placed & (shared.old_group == named)
        if named in shared.targets or stay.any():
            number[named] = shared.targets.get(named, free)
            free += number[named] == free
            group[stay] = number[named]
    return start._replace(
        group=group,
        by_person=placed,
        names={number[old]: name for old, name in edited.names.items() if old in number},
        existing=sorted({*start.existing, *number.values()}),
        touched=frozenset(number.values()),
    )
