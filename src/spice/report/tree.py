"""Groups within groups: the upper part of the merge tree, as the report shows it.

Shapes: N images, K leaves.
"""

from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.report.content import Content
from spice.runs.artifacts import TREE

# The shown tree has as many ends as the answer has groups, within these bounds.
FEWEST_ENDS, MOST_ENDS = 6, 24
PICTURES = 4  # of each end


class Node(NamedTuple):
    """A group of the tree, and the two that it was merged from."""

    images: int
    cluster: int  # the cluster of the answer that has most of its images
    share: float  # of its images that are in this cluster
    pictures: list[str]  # data URLs; only of ends
    parts: list["Node"]  # empty for ends


def tree_section(content: Content) -> Node | None:
    """The root of the tree; None if the run has no tree."""
    source = content.result.with_step("tree")
    if source is None or not (source / TREE).exists():
        return None
    with np.load(source.need(TREE)) as saved:
        leaf, merges = saved["leaf"], saved["merges"]
    if not len(merges):
        return None
    ends = int(np.clip(content.result.answer.clusters, FEWEST_ENDS, MOST_ENDS))
    return _node(content, leaf, merges, 2 * len(merges), ends)


def _node(content: Content, leaf: NDArray[np.int32], merges: NDArray[np.int32], number: int, ends: int) -> Node:
    """Node `number`: a leaf if below K, else the result of merge `number` - K. The last `ends` - 1 merges are shown."""
    merge = number - len(merges) - 1
    inside = merge >= 0 and merge > len(merges) - ends
    parts = [_node(content, leaf, merges, int(part), ends) for part in merges[merge]] if inside else []
    rows = np.flatnonzero(np.isin(leaf, _leaves(merges, number)))
    counts = np.bincount(content.labels.cluster[rows])
    return Node(
        images=len(rows),
        cluster=int(counts.argmax()),
        share=float(counts.max() / len(rows)),
        pictures=[] if inside else _pictures(content, rows),
        parts=sorted(parts, key=lambda part: -part.images),
    )


def _leaves(merges: NDArray[np.int32], number: int) -> list[int]:
    found, waiting = [], [number]
    while waiting:
        merge = (node := waiting.pop()) - len(merges) - 1
        if merge < 0:
            found.append(node)
        else:
            waiting += merges[merge].tolist()
    return found


def _pictures(content: Content, rows: NDArray[np.int64]) -> list[str]:
    """The most central images of a group that the report has pictures of."""
    central = rows[np.argsort(content.labels.prototype_rank[rows], kind="stable")]
    return list(islice(filter(None, map(content.tile, central.tolist())), PICTURES))
