"""One function for the nearest neighbors of every image, whichever way they are found."""

import logging
from typing import Literal, get_args

import torch
from torch import Tensor

from spice.neighbors import approximate
from spice.neighbors.exact import Neighbors, exact_nearest
from spice.neighbors.unit import unit_rows

log = logging.getLogger("spice")

Method = Literal["auto", "exact", "approximate"]

# On a CPU an index is quicker from 25,000 images on (benchmarks/neighbors.py); but up to here all pairs take less than
# a minute of one core at D = 128, and miss nothing.
APPROXIMATE_FROM = 100_000


def nearest(features: Tensor, count: int, *, queries: Tensor | None = None, method: Method = "auto") -> Neighbors:
    """The `count` images with the largest cosine similarity to each image, nearest first, equal ones by index.

    Args:
        features: (N, D), of any length but zero; a copy of them is normalized.
        queries: (Q, D) whose neighbors are wanted. None: those of every image, itself left out (by its index: an
            exact duplicate of an image is a neighbor like any other).
        method: "exact" compares all pairs in blocks; "approximate" asks a faiss index that finds at least 95 % of the
            true neighbors, as measured on a sample; "auto" takes the quicker one for this many images.
    """
    base, asked = _checked(features, count, queries, method)
    exclude = torch.arange(len(base), device=base.device) if queries is None else None
    if _use_index(base, method):
        return approximate.approximate_nearest(base, asked, count, exclude=exclude)
    return exact_nearest(base, asked, count, exclude=exclude)


def _checked(features: Tensor, count: int, queries: Tensor | None, method: str) -> tuple[Tensor, Tensor]:
    """Unit vectors of the features and of the queries, or a refusal."""
    if method not in get_args(Method):
        raise ValueError(f'method must be "auto", "exact" or "approximate", found {method!r}')
    if count < 1:
        raise ValueError(f"at least 1 neighbor must be asked for, found count={count}")
    base = unit_rows(features)
    available = len(base) if queries is not None else len(base) - 1
    if count > available:
        others = "" if queries is not None else "other "
        raise ValueError(f"{count} neighbors were asked for, but there are only {max(available, 0)} {others}images")
    if queries is None:
        return base, base
    asked = unit_rows(queries, name="queries")
    if asked.shape[1] != base.shape[1]:
        raise ValueError(f"queries have width {asked.shape[1]}, the features {base.shape[1]}")
    return base, asked.to(base.device)


def _use_index(base: Tensor, method: Method) -> bool:
    """Whether to ask an index: where it was wished for, or pays; and can be had."""
    # On a GPU the exact search takes seconds at any size that fits there.
    pays = len(base) >= APPROXIMATE_FROM and base.device.type == "cpu"
    if method == "exact" or (method == "auto" and not pays):
        return False
    if not approximate.available():
        log.info("exact neighbors of %s images: faiss is not installed (pip install 'spice-cluster[ann]')", len(base))
        return False
    return True
