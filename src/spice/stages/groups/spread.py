"""A few labels spread over the neighbor graph: the E-step of learning from corrections.

F <- alpha A F + (1 - alpha) Y with A = D^-1/2 W D^-1/2 (Zhou et al. 2004, "Learning with local and global
consistency").
W is the graph of nearest neighbors; the columns of Y, the labels of each group, have the same total weight.

Shapes: N images, S neighbors, G groups.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags

NEIGHBORS = 15
ALPHA = 0.9
ROUNDS = 60


class Near(NamedTuple):
    """The nearest images of every image, nearest first."""

    neighbors: NDArray[np.int64]  # (N, S)
    similarities: NDArray[np.float32]  # (N, S)


def spread_labels(near: Near, labels: NDArray[np.float32]) -> NDArray[np.float32]:
    """How much each image belongs to each group, from labels Y (N, G) that are zero where unknown: (N, G).

    Rows sum to 1, except those of images that no label reaches: they are all zero.
    """
    graph = similarity_graph(near.neighbors[:, :NEIGHBORS], near.similarities[:, :NEIGHBORS])
    given = labels / np.maximum(labels.sum(axis=0, keepdims=True), 1e-12)
    found = given
    for _ in range(ROUNDS):
        found = ALPHA * (graph @ found) + (1 - ALPHA) * given
    total = found.sum(axis=1, keepdims=True)
    return np.asarray(found / np.where(total > 0, total, 1), dtype=np.float32)


def similarity_graph(neighbors: NDArray[np.int64], similarities: NDArray[np.float32]) -> csr_matrix:
    """D^-1/2 W D^-1/2, where W joins two images if either is a neighbor of the other, by exp of their similarity.

    Similarities are measured from the mean similarity to the last neighbor, in units of the collection's own spread.
    """
    images, count = neighbors.shape
    far = similarities[:, -1]  # (N,) similarity to the last neighbor
    scale = max(float(np.mean(similarities[:, 0] - far)), 1e-6)
    weight = np.exp(np.minimum((similarities - far.mean()) / scale, 5.0))  # (N, S)
    rows = np.repeat(np.arange(images), count)
    one_sided = csr_matrix((weight.ravel(), (rows, neighbors.ravel())), shape=(images, images))
    return normalized_adjacency(one_sided.maximum(one_sided.T))


def normalized_adjacency(graph: csr_matrix) -> csr_matrix:
    """D^-1/2 W D^-1/2 for a graph W with degrees D."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scale = diags(1 / np.sqrt(np.maximum(degrees, 1e-12)))
    return scale @ graph @ scale
