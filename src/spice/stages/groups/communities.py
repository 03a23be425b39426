"""The number of communities in the neighbor graph: a second estimate of the number of groups.

The Louvain method (Blondel et al. 2008) maximizes modularity: communities contain more edges than expected by chance.
This estimate shares only the features with the curve, and does not prefer groups of equal size. Half the resolution
gives coarser communities.

Shapes: n images, k neighbors.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from spice.stages.groups.curve import Points, nearest_points

GRAPH_NEIGHBORS = 15
# The count depends on the images that are drawn and on their order: take the median of several draws.
DRAWS, SHARE = 3, 0.8
# At most this many images in a draw. With the same number of neighbors, more images give more communities for the same
# groups: 12 for 1,500 images of Imagenette, 14 for 2,400.
MAX_IMAGES = 1_200
FINE, COARSE = 1.0, 0.5  # resolutions


class Communities(NamedTuple):
    """The number of communities at two resolutions; each is at least 2."""

    fine: int
    coarse: int


def communities(points: Points, *, seed: int) -> Communities:
    """Count the communities in the neighbor graph of points (n, D)."""
    found = [_count_in_draw(points, seed * DRAWS + draw) for draw in range(DRAWS)]
    return Communities(*(max(2, int(np.median(counts))) for counts in zip(*found, strict=True)))


def _count_in_draw(points: Points, seed: int) -> tuple[int, int]:
    """The number of communities of a random draw, at both resolutions."""
    import networkx as nx  # late: slow to import

    drawn = min(MAX_IMAGES, round(SHARE * len(points)))
    rows = np.sort(np.random.default_rng([seed, 5]).permutation(len(points))[:drawn])
    graph = nx.from_scipy_sparse_array(neighbor_graph(points[rows]))
    fine, coarse = (
        len(nx.community.louvain_communities(graph, resolution=resolution, seed=seed)) for resolution in (FINE, COARSE)
    )
    return fine, coarse


def ratio(first: int, second: int) -> float:
    """The larger of two counts divided by the smaller."""
    return max(first, second) / min(first, second)


def neighbor_graph(points: Points) -> csr_matrix:
    """The undirected graph of nearest neighbors: (n, n), ones and zeros."""
    images = len(points)
    count = min(GRAPH_NEIGHBORS, images - 1)
    neighbors = nearest_points(points, count)
    ends = (np.repeat(np.arange(images), count), neighbors.ravel())
    directed = csr_matrix((np.ones(images * count), ends), shape=(images, images))
    return csr_matrix(directed.maximum(directed.T))
