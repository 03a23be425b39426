"""Approximate nearest neighbors from a faiss index, for collections too large to compare all pairs.

The recall is measured on a sample.
Shapes: N images, Q queries, D feature width, S neighbors per query.
"""

import importlib.util
import logging
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from spice.neighbors.exact import Neighbors, exact_nearest, ordered

if TYPE_CHECKING:
    import faiss

log = logging.getLogger("spice")

# Share of the true neighbors to find. The consistency ratio is a mean over them: missing a few hardly changes it.
RECALL = 0.95
# Queries on which recall is measured: with 100 neighbors each, its standard error stays below 0.01.
SAMPLE = 512
# Share of the lists beyond which comparing all pairs is faster: lists are scanned pair by pair, not as a product.
MAX_SHARE = 1 / 8


def available() -> bool:
    """Whether faiss is installed."""
    return importlib.util.find_spec("faiss") is not None


def approximate_nearest(base: Tensor, queries: Tensor, count: int, *, exclude: Tensor | None = None) -> Neighbors:
    """As `exact_nearest`, but searches only the lists nearest to each query, as many as the recall needs.

    If no index reaches the recall (on pure noise, for example), all pairs are compared.
    """
    index = _build(base)
    # Evenly spaced queries.
    sample = torch.linspace(0, len(queries) - 1, min(SAMPLE, len(queries)), dtype=torch.float64).round().long()
    sample = sample.to(base.device)
    own = None if exclude is None else exclude[sample]
    truth = exact_nearest(base, queries[sample], count, exclude=own)
    most = max(1, int(index.nlist * MAX_SHARE))
    for lists in [*(2**power for power in range(most.bit_length()) if 2**power < most), most]:  # 1, 2, 4, ..., most
        index.nprobe = lists
        measured = recall(_search(index, queries[sample], count, own).index, truth.index)
        if measured >= RECALL:
            log.info("neighbors from an index: %d of %d lists, measured recall %.3f", lists, index.nlist, measured)
            return _complete(_search(index, queries, count, exclude), base, queries, exclude)
    log.info("exact neighbor search, because the index reached a recall of only %.3f", measured)
    return exact_nearest(base, queries, count, exclude=exclude)


def recall(found: Tensor, truth: Tensor) -> float:
    """Mean share of each row of `truth` that is in the same row of `found`: (Q, S), (Q, S)."""
    if len(found) != len(truth):
        raise ValueError(f"recall compares row by row, got {len(found)} and {len(truth)} rows")
    ordered_found = found.sort(dim=1).values.contiguous()
    place = torch.searchsorted(ordered_found, truth.contiguous()).clamp_(max=found.shape[1] - 1)  # (Q, S)
    return (ordered_found.gather(1, place) == truth).float().mean().item()


def _build(base: Tensor) -> "faiss.IndexIVFFlat":
    """An index of about 2 sqrt(N) lists, one per center of k-means."""
    import faiss

    vectors = base.cpu().numpy()
    lists = max(1, round(2 * math.sqrt(len(base))))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(base.shape[1]), base.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed, index.cp.spherical = 10, 0, True
    index.cp.min_points_per_centroid = 1  # no warning for small collections, which come here only on request
    index.cp.max_points_per_centroid = 64
    index.train(vectors)
    index.add(vectors)
    return index


def _search(index: "faiss.IndexIVFFlat", queries: Tensor, count: int, exclude: Tensor | None) -> Neighbors:
    """What the index finds, the query itself left out; -1 where its lists hold too few."""
    more = count if exclude is None else count + 1
    similarity, found = map(torch.from_numpy, index.search(queries.cpu().numpy(), more))  # (Q, S or S + 1)
    if exclude is not None:
        # Drop the query itself, or the last one if the query was not found among its many duplicates.
        itself = found == exclude.cpu()[:, None]
        itself[:, -1] |= ~itself.any(dim=1)
        found, similarity = (kept[~itself].view(-1, count) for kept in (found, similarity))
    return Neighbors(found.to(queries.device), similarity.to(queries.device))


def _complete(found: Neighbors, base: Tensor, queries: Tensor, exclude: Tensor | None) -> Neighbors:
    """The neighbors in order, after an exact search for rows with too few."""
    short = (found.index < 0).any(dim=1).nonzero().squeeze(dim=1)
    if len(short):
        own = None if exclude is None else exclude[short]
        exact = exact_nearest(base, queries[short], found.index.shape[1], exclude=own)
        found.index[short], found.similarity[short] = exact
    return ordered(found)
