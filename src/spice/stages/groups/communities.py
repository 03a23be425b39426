"""The number of communities of the neighbor graph: a second estimate of the number of groups.

Louvain's method (Blondel et al. 2008) maximizes modularity: communities hold more edges of the graph than chance would
give them. It shares nothing with the curve but the features, and does not prefer groups of one size. Half the
resolution gives a coarser level.

Shapes: n images, k neighbors.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, diags

from spice.stages.groups.curve import Points, nearest_points

GRAPH_NEIGHBORS = 15
# The count depends a little on the order in which images are visited: take the median of this many orders.
ORDERS = 3
FINE, COARSE = 1.0, 0.5  # resolutions


class Communities(NamedTuple):
    """The number of communities at two resolutions, at least 2."""

    fine: int
    coarse: int


def communities(points: Points, *, seed: int) -> Communities:
    """Count the communities of the neighbor graph of points (n, D)."""
    import networkx as nx  # late: it would take its time at every start

    graph = nx.from_scipy_sparse_array(neighbor_graph(points))

    def count(resolution: float, order: int) -> int:
        return len(nx.community.louvain_communities(graph, resolution=resolution, seed=seed * ORDERS + order))

    found = [[count(resolution, order) for order in range(ORDERS)] for resolution in (FINE, COARSE)]
    return Communities(*(max(2, int(np.median(counts))) for counts in found))


def ratio(first: int, second: int) -> float:
    """The larger of two counts divided by the smaller."""
    return max(first, second) / min(first, second)


def neighbor_graph(points: Points) -> csr_matrix:
    """The graph W that joins each point to its nearest: (n, n), ones and zeros."""
    images = len(points)
    count = min(GRAPH_NEIGHBORS, images - 1)
    neighbors = nearest_points(points, count)
    ends = (np.repeat(np.arange(images), count), neighbors.ravel())
    directed = csr_matrix((np.ones(images * count), ends), shape=(images, images))
    return csr_matrix(directed.maximum(directed.T))


def normalized(graph: csr_matrix) -> csr_matrix:
    """D^-1/2 W D^-1/2 for a graph W with degrees D."""
    scale = diags(1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel()))
    return csr_matrix(scale @ graph @ scale)
