"""One function for the nearest neighbors of every image, exact or approximate."""

import logging
from typing import Literal, get_args

import torch
from torch import Tensor

from spice.neighbors import approximate
from spice.neighbors.directions import unit_rows
from spice.neighbors.exact import Neighbors, exact_nearest

log = logging.getLogger("spice")

Method = Literal["auto", "exact", "approximate"]

# On a CPU an index is faster from 25,000 images on (benchmarks/neighbors.py); but up to this number all pairs take less
# than a minute of one core at D = 128, and miss nothing.
APPROXIMATE_FROM = 100_000


def nearest(features: Tensor, count: int, *, queries: Tensor | None = None, method: Method = "auto") -> Neighbors:
    """The `count` images with the largest cosine similarity to each image, nearest first, equal ones by index.

    Args:
        features: (N, D) of any length; images whose features are all zero are near one another (see `directions`).
        queries: (Q, D) whose neighbors to find. None: those of every image, excluding the image itself (by its index:
            an exact duplicate of an image is a neighbor like any other).
        method: "exact" compares all pairs in blocks; "approximate" uses a faiss index that finds at least 95 % of the
            true neighbors, as measured on a sample; "auto" chooses by the number of images.
    """
    base, targets = _checked(features, count, queries, method)
    exclude = torch.arange(len(base), device=base.device) if queries is None else None
    if _use_index(base, method):
        return approximate.approximate_nearest(base, targets, count, exclude=exclude)
    return exact_nearest(base, targets, count, exclude=exclude)


def _checked(features: Tensor, count: int, queries: Tensor | None, method: str) -> tuple[Tensor, Tensor]:
    """Unit vectors of the features and of the queries; raises if they do not fit."""
    if method not in get_args(Method):
        raise ValueError(f'method must be "auto", "exact" or "approximate", got {method!r}')
    if count < 1:
        raise ValueError(f"need at least 1 neighbor, got count={count}")
    base = unit_rows(features)
    available = len(base) if queries is not None else len(base) - 1
    if count > available:
        others = "" if queries is not None else "other "
        raise ValueError(f"cannot find {count} neighbors among {max(available, 0)} {others}images")
    if queries is None:
        return base, base
    targets = unit_rows(queries, name="queries")
    if targets.shape[1] != base.shape[1]:
        raise ValueError(f"queries have width {targets.shape[1]}, but features have width {base.shape[1]}")
    return base, targets.to(base.device)


def _use_index(base: Tensor, method: Method) -> bool:
    """Whether to use an index: on request, or if it is faster; and only if faiss is installed."""
    # On a GPU the exact search takes seconds at any size that fits there.
    faster = len(base) >= APPROXIMATE_FROM and base.device.type == "cpu"
    if method == "exact" or (method == "auto" and not faster):
        return False
    if not approximate.available():
        log.info("exact neighbors of %s images: faiss is not installed (pip install 'spice-cluster[ann]')", len(base))
        return False
    return True
