"""Approximate nearest neighbors by a faiss index, for collections too large to compare all pairs; recall is measured.

Shapes: N images, Q queries, D feature width, S neighbors asked for.
"""

import importlib.util
import logging
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from spice.neighbors.exact import Neighbors, exact_nearest, ordered
from spice.neighbors.unit import unit_rows

if TYPE_CHECKING:
    import faiss

log = logging.getLogger("spice")

# Share of the true neighbors to be found. The consistency ratio is a mean over them: what is missed hardly moves it.
RECALL = 0.95
# Queries on which recall is measured: with 100 neighbors each, its standard error stays below 0.01.
SAMPLE = 512
# Share of the lists beyond which comparing all pairs is quicker: lists are scanned pair by pair, not as a product.
LARGEST_SHARE = 1 / 8


def available() -> bool:
    """Whether faiss is installed."""
    return importlib.util.find_spec("faiss") is not None


def approximate_nearest(base: Tensor, queries: Tensor, count: int, *, exclude: Tensor | None = None) -> Neighbors:
    """As `exact_nearest`, from the lists nearest to each query; as many lists as the wanted recall takes.

    Features that no index can sort well enough (pure noise, say) are compared exactly.
    """
    index = _build(base)
    sample = _spread(len(queries), SAMPLE).to(base.device)
    own = None if exclude is None else exclude[sample]
    truth = exact_nearest(base, queries[sample], count, exclude=own)
    for lists in _doubling(max(1, int(index.nlist * LARGEST_SHARE))):
        index.nprobe = lists
        found = recall(_ask(index, queries[sample], count, own).index, truth.index)
        if found >= RECALL:
            log.info("neighbors from an index: %d of %d lists, measured recall %.3f", lists, index.nlist, found)
            return _complete(_ask(index, queries, count, exclude), base, queries, exclude)
    log.info("exact neighbors: an index reached a recall of %.3f only", found)
    return exact_nearest(base, queries, count, exclude=exclude)


def recall(found: Tensor, truth: Tensor) -> float:
    """Mean share of each row of `truth` that is in the same row of `found`: (Q, S), (Q, S)."""
    if len(found) != len(truth):
        raise ValueError(f"recall compares row with row, found {len(found)} and {len(truth)} rows")
    ordered_found = found.sort(dim=1).values.contiguous()
    place = torch.searchsorted(ordered_found, truth.contiguous()).clamp_(max=found.shape[1] - 1)  # (Q, S)
    return (ordered_found.gather(1, place) == truth).float().mean().item()


def measured_recall(features: Tensor, neighbors: Neighbors, *, sample: int = SAMPLE) -> float:
    """Recall of the neighbors found for all images, against the exact ones of `sample` images."""
    base = unit_rows(features)
    images = _spread(len(base), sample).to(base.device)
    truth = exact_nearest(base, base[images], neighbors.index.shape[1], exclude=images)
    return recall(neighbors.index[images], truth.index)


def _build(base: Tensor) -> "faiss.IndexIVFFlat":
    """An index of about 2 sqrt(N) lists, each held by a center that k-means found."""
    import faiss

    vectors = base.cpu().numpy()
    lists = max(1, round(2 * math.sqrt(len(base))))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(base.shape[1]), base.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed, index.cp.spherical = 10, 0, True
    index.cp.min_points_per_centroid = 1  # small collections come here only when asked for; no warning then
    index.cp.max_points_per_centroid = 64
    index.train(vectors)
    index.add(vectors)
    return index


def _ask(index: "faiss.IndexIVFFlat", queries: Tensor, count: int, exclude: Tensor | None) -> Neighbors:
    """What the index finds, itself left out; -1 where its lists held too few."""
    more = count if exclude is None else count + 1
    similarity, found = (
        torch.from_numpy(array) for array in index.search(queries.cpu().numpy(), more)
    )  # (Q, S or S + 1)
    if exclude is not None:
        # The query itself goes; where it was not found (many duplicates), the last one does.
        itself = found == exclude.cpu()[:, None]
        itself[:, -1] |= ~itself.any(dim=1)
        found, similarity = (kept[~itself].view(-1, count) for kept in (found, similarity))
    return Neighbors(found.to(queries.device), similarity.to(queries.device))


def _complete(found: Neighbors, base: Tensor, queries: Tensor, exclude: Tensor | None) -> Neighbors:
    """The rows with too few neighbors searched exactly, all of them in order."""
    short = (found.index < 0).any(dim=1).nonzero().squeeze(dim=1)
    if len(short):
        own = None if exclude is None else exclude[short]
        exact = exact_nearest(base, queries[short], found.index.shape[1], exclude=own)
        found.index[short], found.similarity[short] = exact
    return ordered(found)


def _spread(total: int, wanted: int) -> Tensor:
    """At most `wanted` positions, evenly over `total`."""
    return torch.linspace(0, total - 1, min(wanted, total), dtype=torch.float64).round().long()


def _doubling(last: int) -> list[int]:
    """1, 2, 4, ... and `last`."""
    return [*(2**power for power in range(last.bit_length()) if 2**power < last), last]
