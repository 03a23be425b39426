"""Approximate nearest neighbors with an inverted file, for collections that are too large to compare all pairs.

Spherical k-means on a sample assigns the images to lists. The images of a list are compared only with those of the
nearest lists. The number of lists to search is raised until the recall is high enough, measured against the exact
search on a sample of queries.

Shapes: N images, Q queries, D feature width, S neighbors per query, L lists, C candidates.
"""

import logging
import math
from typing import NamedTuple

import torch
from torch import Tensor

from spice.neighbors.exact import Neighbors, exact_nearest, ordered
from spice.neighbors.units import CHUNK, unit_rows
from spice.progress import Progress, silent
from spice.randomness import generator

log = logging.getLogger("spice")

# Share of the true neighbors to find. The consistency ratio is a mean over neighbors, so missing a few hardly matters.
RECALL = 0.95
# Queries on which recall is measured: with 100 neighbors each, its standard error stays below 0.01.
SAMPLE = 512
# k-means: images in the sample per list, and rounds.
SAMPLE_PER_LIST, ROUNDS = 32, 6


class Lists(NamedTuple):
    """The inverted file: all images, ordered by list."""

    vectors: Tensor  # (N, D) unit vectors, ordered by list
    row: Tensor  # (N,) the image of each vector
    position: Tensor  # (N,) the vector of each image, the inverse of `row`
    starts: Tensor  # (L + 1,) the first vector of each list
    centers: Tensor  # (L, D)
    nearest: Tensor  # (L, L) all lists, nearest first, for each list; the first is the list itself
    reached: Tensor  # (L, L) the number of images in the 1, 2, ... nearest lists


def approximate_nearest(
    features: Tensor, queries: Tensor | None, count: int, *, progress: Progress = silent
) -> tuple[Neighbors, float]:
    """Like `exact_nearest`, but searches only as many lists as the recall requires. Returns the measured recall, too.

    Args:
        features: (N, D), finite. They are scaled to unit length in parts, because a mapped file may exceed the memory.
        queries: (Q, D). None: every image, which is not its own neighbor.
    """
    lists = build(features)
    total = len(features) if queries is None else len(queries)
    # Evenly spaced queries.
    sample = torch.linspace(0, max(total - 1, 0), min(SAMPLE, total), dtype=torch.float64).round().long()
    truth = _exact_neighbors(lists, features, queries, sample, count)
    searched = 1
    while True:
        found = _search(lists, queries, count, searched, sample=sample)
        measured = recall(found.index, truth.index)
        if measured >= RECALL or searched == len(lists.centers):
            break
        searched = min(searched + max(1, searched // 2), len(lists.centers))
    log.info(
        "approximate neighbors: %d of %d lists searched, measured recall %.3f", searched, len(lists.centers), measured
    )
    return _search(lists, queries, count, searched, progress=progress), measured


def recall(found: Tensor, truth: Tensor) -> float:
    """The mean share of a row of `truth` (Q, S) that is in the same row of `found` (Q, S)."""
    if len(found) != len(truth):
        raise ValueError(f"recall compares row by row, got {len(found)} and {len(truth)} rows")
    ordered_found = found.sort(dim=1).values.contiguous()
    position = torch.searchsorted(ordered_found, truth.contiguous()).clamp_(max=found.shape[1] - 1)  # (Q, S)
    return (ordered_found.gather(1, position) == truth).float().mean().item()


def build(features: Tensor) -> Lists:
    """Assign all images to about sqrt(N) lists, by spherical k-means on a sample."""
    images, device = len(features), features.device
    count = max(1, round(math.sqrt(images)))
    drawn = torch.randperm(images, generator=generator(0, "neighbors", "lists"))[: SAMPLE_PER_LIST * count]
    centers = _centers(unit_rows(features[drawn.sort().values.to(device)]), count)
    member = torch.cat([_closest(unit_rows(part), centers) for part in torch.split(features, CHUNK)])  # (N,)
    row = member.argsort(stable=True)
    position = torch.empty_like(row)
    position[row] = torch.arange(images, device=device)
    vectors = torch.empty(images, features.shape[1], device=device)
    for start in range(0, images, CHUNK):
        vectors[start : start + CHUNK] = unit_rows(features[row[start : start + CHUNK]])
    sizes = member.bincount(minlength=count)
    closeness = (centers @ centers.T).fill_diagonal_(torch.inf)
    nearest = closeness.argsort(dim=1, descending=True, stable=True)  # (L, L)
    starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(dim=0)])
    return Lists(vectors, row, position, starts, centers, nearest, sizes[nearest].cumsum(dim=1))


def _centers(vectors: Tensor, count: int) -> Tensor:
    """Lloyd's algorithm on unit vectors, from evenly spaced ones: (n, D) -> (L, D). An empty list keeps its center."""
    centers = vectors[torch.linspace(0, len(vectors) - 1, count, dtype=torch.float64).round().long()]
    for _ in range(ROUNDS):
        member = torch.cat([_closest(part, centers) for part in torch.split(vectors, CHUNK)])
        sums = torch.zeros_like(centers).index_add_(0, member, vectors)
        filled = member.bincount(minlength=count) > 0
        centers = torch.where(filled[:, None], torch.nn.functional.normalize(sums, dim=1), centers)
    return centers


def _closest(vectors: Tensor, centers: Tensor) -> Tensor:
    return (vectors @ centers.T).argmax(dim=1)


def _search(
    lists: Lists,
    queries: Tensor | None,
    count: int,
    searched: int,
    *,
    sample: Tensor | None = None,
    progress: Progress = silent,
) -> Neighbors:
    """The neighbors of all queries (None: all images), or of a sample, in the `searched` lists nearest to each."""
    device = lists.row.device
    total = len(lists.row) if queries is None else len(queries)
    chosen = torch.arange(total, device=device) if sample is None else sample.to(device)  # (q,)
    if queries is None:
        member = torch.searchsorted(lists.starts, lists.position[chosen], right=True) - 1
    else:
        parts = torch.split(chosen, CHUNK)
        member = torch.cat([_closest(unit_rows(queries[part]), lists.centers) for part in parts])
    order = member.argsort(stable=True)
    ends = member.bincount(minlength=len(lists.centers)).cumsum(dim=0).tolist()
    index = torch.empty(len(chosen), count, dtype=torch.int64, device=device)
    similarity = torch.empty(len(chosen), count, device=device)
    start = 0
    for number, end in enumerate(ends):
        if end > start:
            own = order[start:end]  # positions in `chosen`
            vectors = lists.vectors[lists.position[chosen[own]]] if queries is None else unit_rows(queries[chosen[own]])
            candidates = _candidates(lists, number, searched, count + (queries is None))  # (C,)
            # A list's own images are the first candidates, in order.
            itself = lists.position[chosen[own]] - lists.starts[number] if queries is None else None
            near = exact_nearest(lists.vectors[candidates], vectors, count, exclude=itself)
            index[own], similarity[own] = ordered(Neighbors(lists.row[candidates[near.index]], near.similarity))
            progress("neighbors", end, len(chosen))
        start = end
    return Neighbors(index, similarity)


def _candidates(lists: Lists, number: int, searched: int, least: int) -> Tensor:
    """Positions of the images in the `searched` lists nearest to a list, or in more if these have too few: (C,)."""
    enough = int(torch.searchsorted(lists.reached[number], least)) + 1
    nearest = lists.nearest[number, : max(searched, enough)]
    spans = zip(lists.starts[nearest].tolist(), lists.starts[nearest + 1].tolist(), strict=True)
    return torch.cat([torch.arange(start, end, device=lists.row.device) for start, end in spans])


def _exact_neighbors(lists: Lists, features: Tensor, queries: Tensor | None, sample: Tensor, count: int) -> Neighbors:
    """The true neighbors of a sample of the queries."""
    itself = lists.position[sample.to(lists.row.device)] if queries is None else None
    rows = features if queries is None else queries
    found = exact_nearest(lists.vectors, unit_rows(rows[sample.to(rows.device)]), count, exclude=itself)
    return Neighbors(lists.row[found.index], found.similarity)
