"""Evidence from neighbors: how well groups are separated, which two should be merged, which one should be split.

Shapes: N images, K groups, S neighbors.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import eigsh

LINKS = 15  # neighbors of each image in the graph of a group
SMALLEST_PART = 0.2  # share of a group in the smaller of two parts
MIN_IMAGES, MAX_IMAGES = 20, 20_000  # smaller and larger groups are not tested for two parts

_CHUNK = 65536


class Parts(NamedTuple):
    """The weakest cut through a group."""

    sizes: tuple[int, int]
    links: float  # share of the links of the smaller part that lead to the other part


def neighbor_votes(
    cluster: NDArray[np.int32], neighbors: NDArray[np.int64], clusters: int, *, every: int = 1
) -> NDArray[np.float64]:
    """The share of each group among the neighbors (N, S) of the images of each group: (K, K).

    Images in no group (-1) do not count. Only every n-th image votes (`every`).
    """
    wide = cluster.astype(np.int64)
    counts = np.zeros(clusters * clusters, dtype=np.int64)
    for start in range(0, len(wide), every * _CHUNK):
        part = slice(start, start + every * _CHUNK, every)
        mine, theirs = wide[part, None], wide[neighbors[part]]  # (B, 1), (B, S)
        pairs = (mine * clusters + theirs)[(mine >= 0) & (theirs >= 0)]
        counts += np.bincount(pairs, minlength=clusters * clusters)
    table = counts.reshape(clusters, clusters)
    return np.asarray(table / np.maximum(1, table.sum(axis=1, keepdims=True)), dtype=np.float64)


def groups_among_neighbors(votes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The effective number of groups among the neighbors of each group, exp(entropy of its votes): (K, K) -> (K,).

    1: all neighbors are in the group itself. 2: as if half of them were in another group. A class that is split into
    two groups has about 2, although both groups are pure. A group of leftovers from many classes has more.
    """
    logs = np.log(votes, where=votes > 0, out=np.zeros_like(votes))
    return np.asarray(np.exp(-(votes * logs).sum(axis=1)), dtype=np.float64)


def similar_groups(votes: NDArray[np.float64], least: float) -> list[tuple[int, int, float]]:
    """Pairs of groups that each have at least the share `least` of their neighbors in the other, most similar first."""
    both = np.minimum(votes, votes.T)
    first, second = np.nonzero(np.triu(both >= least, k=1))
    pairs = zip(first.tolist(), second.tolist(), both[first, second].tolist(), strict=True)
    return sorted(pairs, key=lambda pair: -pair[2])


def two_parts(members: NDArray[np.int64], neighbors: NDArray[np.int64]) -> Parts | None:
    """The weakest cut through the neighbor graph of a group (spectral; both parts have at least a fifth of the images).

    None: the group is too small or too large.
    """
    if not MIN_IMAGES <= len(members) <= MAX_IMAGES:
        return None
    graph = _graph(members, neighbors)
    degree = np.asarray(graph.sum(axis=1)).ravel()
    scale = sparse.diags_array(1 / np.sqrt(np.maximum(degree, 1)))
    # A fixed start vector, so that the same group always gives the same cut.
    start = np.random.default_rng(0).random(len(members))
    _, vectors = eigsh(scale @ graph @ scale + sparse.eye_array(len(members)), k=2, which="LA", v0=start, tol=1e-6)
    order = np.argsort(vectors[:, 0] / np.sqrt(np.maximum(degree, 1)), kind="stable")  # ascending eigenvalues
    return _weakest_cut(graph[order][:, order], degree[order])


def _graph(members: NDArray[np.int64], neighbors: NDArray[np.int64]) -> sparse.csr_array:
    """The symmetric graph of nearest neighbors within a group."""
    near = neighbors[members][:, :LINKS]  # (n, S)
    position = np.searchsorted(members, near)
    inside = members[np.minimum(position, len(members) - 1)] == near
    rows, columns = np.nonzero(inside)[0], position[inside]
    ones = np.ones(len(rows))
    graph = sparse.csr_array((ones, (rows, columns)), shape=(len(members), len(members)))
    both = graph + graph.T
    both.data[:] = 1
    return both


def _weakest_cut(graph: sparse.csr_array, degree: NDArray[np.float64]) -> Parts:
    """The weakest cut of images into those before and those after a position."""
    images, total = len(degree), float(degree.sum())
    before = np.asarray(sparse.tril(graph, k=-1).sum(axis=1)).ravel()  # links of each image to those before it
    cut = np.cumsum(degree - 2 * before)  # links across the cut after each image
    volume = np.cumsum(degree)
    share = cut / np.maximum(1, np.minimum(volume, total - volume))
    least = int(np.ceil(SMALLEST_PART * images))
    last = least - 1 + int(np.argmin(share[least - 1 : images - least]))  # of the first part
    return Parts((last + 1, images - last - 1), float(share[last]))
