"""Exact nearest neighbors by cosine similarity, in blocks of rows: the N x N matrix is never in memory.

Equal similarities are ordered by index, so that the result is deterministic.

Shapes: N images, Q queries, D feature width, S neighbors per query, R runs of L images.
"""

from typing import NamedTuple

import torch
from torch import Tensor

# Size of a block of similarities. Larger blocks are no faster, because they do not fit into the cache.
BLOCK_ROWS = 256
BLOCK_BYTES = 128 * 2**20
# L: runs of 32 columns first, then runs of 8 within the best of them. Either one alone takes 1.5 times as long.
RUNS = (32, 8)


class Neighbors(NamedTuple):
    """The nearest images of each image, nearest first."""

    index: Tensor  # type: ignore[assignment]  # (Q, S) int64; hides tuple.index
    similarity: Tensor  # (Q, S) float32, cosine


def exact_nearest(base: Tensor, queries: Tensor, count: int, *, exclude: Tensor | None = None) -> Neighbors:
    """The `count` rows of `base` that are most similar to each query. All rows are unit vectors.

    Args:
        exclude: (Q,) a row of `base` to leave out for each query, such as the query itself.
    """
    images = len(base)
    columns = images + -images % RUNS[0]  # R * L
    rows = max(1, min(len(queries), BLOCK_ROWS, BLOCK_BYTES // (4 * columns)))
    # The last run is padded with -inf, which is never chosen.
    block = torch.full((rows, columns), -torch.inf, device=base.device)
    index = torch.empty(len(queries), count, dtype=torch.int64, device=base.device)
    similarity = torch.empty(len(queries), count, device=base.device)
    for start in range(0, len(queries), rows):
        part = slice(start, min(start + rows, len(queries)))
        similarities = block[: part.stop - start]  # (rows, R * L)
        torch.mm(queries[part], base.T, out=similarities[:, :images])
        if exclude is not None:
            similarities.scatter_(1, exclude[part, None], -torch.inf)
        index[part], similarity[part] = _largest(similarities, count)
    return Neighbors(index, similarity)


def ordered(neighbors: Neighbors) -> Neighbors:
    """The same neighbors, nearest first. Equal similarities are ordered by index."""
    keys = _keys(neighbors.similarity, neighbors.index)
    return _read_keys(keys.sort(dim=1, descending=True).values)


def _largest(similarities: Tensor, count: int) -> Neighbors:
    """The `count` largest entries of each row; ties in order of column.

    `topk` over whole rows would cost more than the matrix product at D = 128. So the search has steps: first it selects
    the runs of columns with the largest maxima (ties in order of column), then the best shorter runs within them. None
    of the `count` best entries is lost: if its run were not selected, each of the `count` selected runs would hold a
    better entry.
    """
    rows = len(similarities)
    entries, starts = similarities, torch.zeros(rows, 1, dtype=torch.int64, device=similarities.device)
    for length in RUNS:
        within = torch.arange(0, entries.numel() // starts.numel(), length, device=similarities.device)
        starts = (starts[:, :, None] + within).view(rows, -1)  # (rows, R) the first column of each run
        entries = entries.view(rows, -1, length)  # (rows, R, L)
        if starts.shape[1] > count:
            best = _keys(entries.amax(dim=2), starts).topk(count, dim=1, sorted=False).indices  # (rows, S)
            offsets = torch.arange(0, starts.numel(), starts.shape[1], device=similarities.device)  # (rows,)
            starts = starts.gather(1, best)
            entries = entries.view(-1, length).index_select(0, (best + offsets[:, None]).view(-1))  # (rows * S, L)
    keys = _keys(entries.view(*starts.shape, -1), starts[:, :, None] + torch.arange(RUNS[-1], device=starts.device))
    return _read_keys(keys.view(rows, -1).topk(count, dim=1).values)


# A key is a similarity and its index in one integer, which sorts by similarity, then by lower index. The upper 32 bits
# are the bits of the float, mapped so that integers have the order of the floats. The lower 32 bits are the inverted
# index. No two keys are equal, so `topk` has no ties to break.
_LOW = 0xFFFFFFFF
_MAGNITUDE = 0x7FFFFFFF


def _keys(similarity: Tensor, index: Tensor) -> Tensor:
    bits = (similarity + 0.0).view(torch.int32)  # + 0.0: a negative zero equals a positive one
    # A negative float is smaller if its magnitude is larger, so its magnitude bits are inverted.
    bits.bitwise_xor_((bits >> 31).bitwise_and_(_MAGNITUDE))
    return bits.long().bitwise_left_shift_(32).bitwise_or_(_LOW - index)


def _read_keys(keys: Tensor) -> Neighbors:
    bits = (keys >> 32).int()
    bits = bits ^ ((bits >> 31) & _MAGNITUDE)
    return Neighbors(_LOW - (keys & _LOW), bits.view(torch.float32))
