"""The merge tree as the page draws it: the size, the main group and some images of every node.

Shapes: N images, K leaves, G groups.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from spice.stages.groups.merge_tree import MergeTree
from spice.web.session import State

PICTURES = 8  # of each node
# More groups do not fit on one screen. The command line can cut at any number.
MOST_ENDS = 60


def describe_tree(state: State) -> JsonValue:
    """Nodes 0 to K - 1 are leaves; merge m creates node K + m. None if the run has no tree."""
    tree = state.opened.tree
    if tree is None or not len(tree.merges):
        return None
    numbers, groups = np.unique(state.groups.group, return_inverse=True)
    counts = _counts(tree, groups)  # (2 K - 1, G)
    pictures = _pictures(tree, state.opened.labels.prototype_rank)
    return {
        "merges": tree.merges.tolist(),
        "most": min(len(tree.merges) + 1, MOST_ENDS),
        "nodes": [
            {
                "images": int(inside.sum()),
                "group": int(numbers[inside.argmax()]),
                "share": round(float(inside.max() / inside.sum()), 3),
                "pictures": rows,
            }
            for inside, rows in zip(counts, pictures, strict=True)
        ],
    }


def _counts(tree: MergeTree, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many images of each group are in each node."""
    leaves = len(tree.merges) + 1
    found = np.zeros((2 * leaves - 1, int(groups.max()) + 1), dtype=np.int64)
    np.add.at(found, (tree.leaf, groups), 1)
    for number, (one, other) in enumerate(tree.merges):
        found[leaves + number] = found[one] + found[other]
    return found


def _pictures(tree: MergeTree, rank: NDArray[np.int32]) -> list[list[int]]:
    """The images of each node that are nearest to the center of their group."""
    order = np.lexsort((rank, tree.leaf))
    parts = np.split(order, np.searchsorted(tree.leaf[order], np.arange(1, len(tree.merges) + 1)))
    found = [rows[:PICTURES].tolist() for rows in parts]
    for one, other in tree.merges.tolist():
        found.append(sorted(found[one] + found[other], key=lambda row: (rank[row], row))[:PICTURES])
    return found
