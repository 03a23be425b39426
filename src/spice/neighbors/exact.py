"""Exact nearest neighbors by cosine similarity, a block of rows at a time: the N x N matrix never exists.

Equal similarities are ordered by index, the lower first, so that the result is one function of its input.

Shapes: N images, Q queries, D feature width, S neighbors asked for, G groups of images, L images in a group.
"""

from typing import NamedTuple

import torch
from torch import Tensor

# One block of similarities: larger ones multiply no faster, and what is made from them falls out of the cache.
BLOCK_ROWS = 256
BLOCK_BYTES = 64 * 2**20
# L. Finding the best groups and then searching them costs least here: 16 makes more groups, 64 longer ones.
GROUP = 32


class Neighbors(NamedTuple):
    """The nearest images of each image, nearest first."""

    index: Tensor  # type: ignore[assignment]  # (Q, S) int64; hides tuple.index, which nobody asks of neighbors
    similarity: Tensor  # (Q, S) float32, cosine


def exact_nearest(base: Tensor, queries: Tensor, count: int, *, exclude: Tensor | None = None) -> Neighbors:
    """The `count` rows of `base` most similar to each query; both hold unit vectors.

    Args:
        exclude: (Q,) for each query the row of `base` that is the query itself, and is left out.
    """
    images = len(base)
    columns = images + -images % GROUP  # G * L
    rows = max(1, min(len(queries), BLOCK_ROWS, BLOCK_BYTES // (4 * columns)))
    # The last group may be longer than what is left: it is filled up with what is nobody's neighbor.
    block = torch.full((rows, columns), -torch.inf, device=base.device)
    index = torch.empty(len(queries), count, dtype=torch.int64, device=base.device)
    similarity = torch.empty(len(queries), count, device=base.device)
    for start in range(0, len(queries), rows):
        part = slice(start, min(start + rows, len(queries)))
        similarities = block[: part.stop - start]  # (rows, G * L)
        torch.mm(queries[part], base.T, out=similarities[:, :images])
        if exclude is not None:
            similarities.scatter_(1, exclude[part, None], -torch.inf)
        index[part], similarity[part] = _largest(similarities, count)
    return Neighbors(index, similarity)


def ordered(neighbors: Neighbors) -> Neighbors:
    """The same neighbors, nearest first and equal ones by index."""
    keys = _keys(neighbors.similarity, neighbors.index)
    return _read_keys(keys.sort(dim=1, descending=True).values)


def _largest(similarities: Tensor, count: int) -> Neighbors:
    """The `count` largest entries of each row, equal ones by column.

    Searched in two steps, since `topk` over whole rows costs more than the matrix product at D = 128. An entry
    among the `count` best lies in one of the `count` groups with the best maxima (equal maxima by group): were its
    group not among them, each of these groups would hold an entry that comes before it. Groups are runs of
    columns, so that "by group" and "by column" agree.
    """
    rows, columns = similarities.shape
    lanes = torch.arange(GROUP, device=similarities.device)
    if columns // GROUP <= count:
        every = torch.arange(columns, device=similarities.device)
        return _read_keys(_keys(similarities, every).topk(count, dim=1).values)
    grouped = similarities.view(rows, -1, GROUP)  # (rows, G, L)
    groups = grouped.shape[1]
    maxima = _keys(grouped.amax(dim=2), torch.arange(groups, device=similarities.device))  # (rows, G)
    best = _read_keys(maxima.topk(count, dim=1, sorted=False).values).index  # (rows, S)
    offsets = torch.arange(0, rows * groups, groups, device=similarities.device)  # (rows,)
    candidates = grouped.view(-1, GROUP).index_select(0, (best + offsets[:, None]).flatten())  # (rows * S, L)
    keys = _keys(candidates, best.view(-1, 1) * GROUP + lanes)  # (rows * S, L)
    return _read_keys(keys.view(rows, -1).topk(count, dim=1).values)


# A similarity and its index in one integer that sorts by similarity, then by lower index: the float's bits, put into
# the order of the floats, above 32 bits of inverted index. No two keys are equal, so `topk` has nothing to choose.
_LOW = 0xFFFFFFFF
_MAGNITUDE = 0x7FFFFFFF


def _keys(similarity: Tensor, index: Tensor) -> Tensor:
    bits = (similarity + 0.0).view(torch.int32)  # + 0.0: a negative zero equals a positive one
    bits.bitwise_xor_((bits >> 31).bitwise_and_(_MAGNITUDE))  # floats below zero grow with their bits reversed
    return bits.long().bitwise_left_shift_(32).bitwise_or_(_LOW - index)


def _read_keys(keys: Tensor) -> Neighbors:
    bits = (keys >> 32).int()
    bits = bits ^ ((bits >> 31) & _MAGNITUDE)
    return Neighbors(_LOW - (keys & _LOW), bits.view(torch.float32))
