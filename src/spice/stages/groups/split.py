"""A proposal for splitting a group: k-means on the features of its images.

Shapes: N images, n of them in the group, D feature width.
"""

import numpy as np
from numpy.typing import NDArray

from spice.errors import UserError
from spice.runs import Groups, Result
from spice.runs.edits import Split
from spice.stages.kmeans import kmeans


def propose_split(result: Result, groups: Groups, group: int, *, into: int = 2) -> Split:
    """The operation that splits a group into `into` parts. The largest part keeps the number and the name."""
    members = np.flatnonzero(groups.group == group)
    parts = split_rows(result.answer_features, members, into=into)
    return Split(group=group, parts=[result.base.images(rows.tolist()) for rows in parts[1:]])


def split_rows(features: NDArray[np.float32], members: NDArray[np.int64], *, into: int) -> list[NDArray[np.int64]]:
    """The rows `members` of features (N, D), split into `into` parts, largest first."""
    if into < 2:
        raise UserError(f"need at least 2 parts, got {into}")
    own = np.asarray(features[members], dtype=np.float32)  # (n, D)
    distinct = len(np.unique(own, axis=0)) if len(own) <= 10 * into else into
    if distinct < into:
        raise UserError(f"need at least {into} different images to split a group into {into} parts, got {distinct}")
    part = kmeans(own, into, seed=0)
    parts = [members[part == number] for number in range(into)]
    return sorted((rows for rows in parts if len(rows)), key=len, reverse=True)
