"""One function for the nearest neighbors of every image, exact or approximate.

Features are compared as unit vectors, so that cosine similarity is a matrix product. A network that ends in a ReLU can
be silent on a blank page, or on images far smaller than it was made for. The features of such images are all zero and
have no direction. They are like one another and unlike the rest, so they all get the one direction that no other image
has: all features equal.

Shapes: N images, Q queries, D feature width, S neighbors per query.
"""

import logging
from typing import Literal, get_args

import torch
from torch import Tensor

from spice.errors import SpiceWarning, warn_user
from spice.neighbors import approximate
from spice.neighbors.exact import Neighbors, exact_nearest

log = logging.getLogger("spice")

Method = Literal["auto", "exact", "approximate"]

# On a CPU an index is faster from 25,000 images on (benchmarks/neighbors.py); but up to this number all pairs take less
# than a minute of one core at D = 128, and miss nothing.
APPROXIMATE_FROM = 100_000


class BlankImagesWarning(SpiceWarning):
    """The encoder's features of some images are all zero."""


def nearest(features: Tensor, count: int, *, queries: Tensor | None = None, method: Method = "auto") -> Neighbors:
    """The `count` images with the largest cosine similarity to each image, nearest first, equal ones by index.

    Args:
        features: (N, D) of any length; images whose features are all zero are near one another.
        queries: (Q, D) whose neighbors to find. None: those of every image, excluding the image itself (by its index:
            an exact duplicate of an image is a neighbor like any other).
        method: "exact" compares all pairs in blocks; "approximate" uses a faiss index that finds at least 95 % of the
            true neighbors, as measured on a sample; "auto" chooses by the number of images.
    """
    if method not in get_args(Method):
        raise ValueError(f'method must be "auto", "exact" or "approximate", got {method!r}')
    if count < 1:
        raise ValueError(f"need at least 1 neighbor, got count={count}")
    base = unit_rows(features)
    exclude = torch.arange(len(base), device=base.device) if queries is None else None
    available, others = (len(base), "") if exclude is None else (max(len(base) - 1, 0), "other ")
    if count > available:
        raise ValueError(f"cannot find {count} neighbors among {available} {others}images")
    targets = base if queries is None else unit_rows(queries, name="queries").to(base.device)
    if targets.shape[1] != base.shape[1]:
        raise ValueError(f"queries have width {targets.shape[1]}, but features have width {base.shape[1]}")
    # On a GPU the exact search takes seconds at any size that fits there.
    use_index = method == "approximate" or (
        method == "auto" and len(base) >= APPROXIMATE_FROM and base.device.type == "cpu"
    )
    if use_index and not approximate.available():
        log.info("exact neighbor search for %s images; for a faster one: pip install 'spice-cluster[ann]'", len(base))
        use_index = False
    search = approximate.approximate_nearest if use_index else exact_nearest
    return search(base, targets, count, exclude=exclude)


def warn_of_blank(features: Tensor) -> None:
    """Warn if the encoder sees nothing in some images."""
    count = int((features.count_nonzero(dim=1) == 0).sum())
    if count:
        warn_user(
            f"the encoder sees nothing in {count:,} of {len(features):,} images, so they form one group; "
            "try a larger --size or another encoder",
            BlankImagesWarning,
        )


def unit_rows(features: Tensor, *, name: str = "features") -> Tensor:
    """Each row divided by its length, in float32: (N, D) -> (N, D). Rows of zeros get the direction of ones."""
    if features.ndim != 2 or features.shape[1] == 0:
        raise ValueError(f"{name} must be (images, width), got shape {tuple(features.shape)}")
    rows = features.detach().float()  # (N, D)
    largest: Tensor = torch.linalg.vector_norm(rows, ord=torch.inf, dim=1, keepdim=True)  # (N, 1); NaN propagates
    bad = (~largest.isfinite()).squeeze(dim=1).nonzero().squeeze(dim=1)  # (number of bad rows,)
    if len(bad):
        others = f" and {len(bad) - 1:,} more" if len(bad) > 1 else ""
        raise ValueError(
            f"{name} contain NaN or infinite values in row {bad[0].item():,}{others}: encode these images again"
        )
    blank = largest == 0  # (N, 1)
    if blank.any():
        rows, largest = torch.where(blank, 1.0, rows), torch.where(blank, 1.0, largest)
    # By the largest entry first: the square of a very large or very small one would overflow or vanish in float32.
    scaled = rows / largest
    return scaled.div_(torch.linalg.vector_norm(scaled, dim=1, keepdim=True))
