"""The nearest neighbors of every image by cosine similarity of features, exact or approximate.

Shapes: N images, Q queries, D feature width, S neighbors per query.
"""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from spice.errors import SpiceWarning, warn_user
from spice.neighbors.approximate import approximate_nearest
from spice.neighbors.exact import Neighbors, exact_nearest
from spice.neighbors.units import CHUNK, refuse_unusable, unit_rows
from spice.progress import Progress, silent

Method = Literal["auto", "exact", "approximate"]

# Below this many images, comparing all pairs takes less than a minute on one core at D = 128.
APPROXIMATE_FROM = 100_000


class BlankImagesWarning(SpiceWarning):
    """The features of some images are all zero."""


class NeighborsWithRecall(NamedTuple):
    """Neighbors and their recall: the share of the true neighbors that were found, 1 if all pairs were compared."""

    neighbors: Neighbors
    recall: float


def nearest(features: Tensor, count: int, *, queries: Tensor | None = None, method: Method = "auto") -> Neighbors:
    """The `count` images with the largest cosine similarity to each image, nearest first; ties in order of index.

    Args:
        features: (N, D) of any length. Images whose features are all zero are neighbors of each other.
        queries: (Q, D). None: every image, which is not its own neighbor (but its exact copies are).
        method: "exact" compares all pairs. "approximate" compares images in similar lists and finds at least 95 % of
            the true neighbors, as measured on a sample. "auto" chooses by the number of images.
    """
    return nearest_with_recall(features, count, queries=queries, method=method).neighbors


def nearest_with_recall(
    features: Tensor,
    count: int,
    *,
    queries: Tensor | None = None,
    method: Method = "auto",
    progress: Progress = silent,
) -> NeighborsWithRecall:
    """The result of `nearest`, with its recall."""
    if method not in get_args(Method):
        raise ValueError(f'method must be "auto", "exact" or "approximate", got {method!r}')
    if count < 1:
        raise ValueError(f"need at least 1 neighbor, got count={count}")
    refuse_unusable(features)
    available, others = (len(features), "") if queries is not None else (max(len(features) - 1, 0), "other ")
    if count > available:
        raise ValueError(f"cannot find {count} neighbors among {available} {others}images")
    if queries is not None:
        refuse_unusable(queries, name="queries")
        queries = queries.to(features.device)
        if queries.shape[1] != features.shape[1]:
            raise ValueError(f"queries have width {queries.shape[1]}, but features have width {features.shape[1]}")
    # On a GPU the exact search takes seconds at any size that fits there.
    large = len(features) >= APPROXIMATE_FROM and features.device.type == "cpu"
    if method == "approximate" or (method == "auto" and large):
        return NeighborsWithRecall(*approximate_nearest(features, queries, count, progress=progress))
    base = unit_rows(features)
    exclude = torch.arange(len(base), device=base.device) if queries is None else None
    found = exact_nearest(base, base if queries is None else unit_rows(queries), count, exclude=exclude)
    return NeighborsWithRecall(found, recall=1.0)


def warn_of_blank(features: Tensor) -> None:
    """Warn if the features of some images are all zero."""
    count = sum(int((part.count_nonzero(dim=1) == 0).sum()) for part in torch.split(features, CHUNK))
    if count:
        warn_user(
            f"the encoder sees nothing in {count:,} of {len(features):,} images, so they form one group; "
            "try a larger --size or another encoder",
            BlankImagesWarning,
        )
