"""A group cut where the merge tree of all images cuts it.

Shapes: N images, n of them in the group.
"""

import numpy as np
from numpy.typing import NDArray

from spice.errors import UserError
from spice.stages.groups.merge_tree import MergeTree

# A part needs this share of the group: a few stray images of a neighboring branch are not a part.
SMALLEST_PART = 0.05


def tree_parts(tree: MergeTree, members: NDArray[np.int64], *, into: int) -> list[NDArray[np.int64]]:
    """The rows `members` in `into` parts, largest first: the coarsest cut of the tree that has so many in the group.

    Images of smaller branches stay with the largest part.
    """
    least = max(1, SMALLEST_PART * len(members))
    for clusters in range(into, len(tree.merges) + 2):
        branch = tree.cut(clusters)[members]  # (n,)
        branches, counts = np.unique(branch, return_counts=True)
        large = branches[counts >= least]
        if len(large) < into:
            continue
        chosen = large[np.argsort(-counts[counts >= least], kind="stable")][:into]
        branch = np.where(np.isin(branch, chosen), branch, chosen[0])
        return sorted((members[branch == one] for one in chosen), key=len, reverse=True)
    raise UserError(f"the tree cannot split this group of {len(members):,} images into {into} parts")
