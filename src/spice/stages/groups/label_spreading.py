"""Label spreading on the neighbor graph, a part of the E-step of learning from corrections.

F <- alpha A F + (1 - alpha) Y with A = D^-1/2 W D^-1/2 (Zhou et al. 2004, "Learning with local and global
consistency"). W is the graph of nearest neighbors. The columns of Y, one for each group, have the same total weight.

Shapes: N images, S neighbors, G groups.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags

NEIGHBORS = 15
ALPHA = 0.9
ROUNDS = 60


class NeighborGraph(NamedTuple):
    """The nearest images of every image, nearest first."""

    neighbors: NDArray[np.int64]  # (N, S)
    similarities: NDArray[np.float32]  # (N, S)


def spread_labels(graph: NeighborGraph, labels: NDArray[np.float32]) -> NDArray[np.float32]:
    """The share of each group in the labels that reach each image, from labels Y (N, G), zero if unknown: (N, G).

    Rows sum to 1. Rows of images that no label reaches are zero.
    """
    adjacency = similarity_graph(graph.neighbors[:, :NEIGHBORS], graph.similarities[:, :NEIGHBORS])
    given = labels / np.maximum(labels.sum(axis=0, keepdims=True), 1e-12)
    spread = given
    for _ in range(ROUNDS):
        spread = ALPHA * (adjacency @ spread) + (1 - ALPHA) * given
    total = spread.sum(axis=1, keepdims=True)
    return np.asarray(spread / np.where(total > 0, total, 1), dtype=np.float32)


def similarity_graph(neighbors: NDArray[np.int64], similarities: NDArray[np.float32]) -> csr_matrix:
    """D^-1/2 W D^-1/2, where W has exp(similarity) for two images if either is a neighbor of the other.

    Similarities are shifted by the mean similarity to the last neighbor, and scaled by the mean difference between the
    first and the last neighbor.
    """
    images, count = neighbors.shape
    last = similarities[:, -1]  # (N,)
    scale = max(float(np.mean(similarities[:, 0] - last)), 1e-6)
    weight = np.exp(np.minimum((similarities - last.mean()) / scale, 5.0))  # (N, S)
    rows = np.repeat(np.arange(images), count)
    one_sided = csr_matrix((weight.ravel(), (rows, neighbors.ravel())), shape=(images, images))
    return normalized_adjacency(one_sided.maximum(one_sided.T))


def normalized_adjacency(graph: csr_matrix) -> csr_matrix:
    """D^-1/2 W D^-1/2 of a graph W with degrees D."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scale = diags(1 / np.sqrt(np.maximum(degrees, 1e-12)))
    return scale @ graph @ scale
