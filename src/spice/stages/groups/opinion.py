"""A second opinion on the number of groups, from density: HDBSCAN on a spectral embedding of the neighbor graph.

It shares nothing with the curve but the features, and does not prefer groups of one size.

Shapes: n images, k neighbors, E dimensions of the embedding.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import eigsh
from sklearn.cluster import HDBSCAN

from spice.stages.groups.curve import Points, nearest_points

GRAPH_NEIGHBORS = 15
# In more dimensions density says little: neighbors are about as far as strangers.
DIMENSIONS = 8
# Eigenvalues to this power: the share of a random walk's steps that stay together after three rounds.
STEPS = 3
# A group of density has at least this many images; in small collections a fiftieth of them.
SMALLEST, SMALLEST_SHARE, LEAST = 30, 50, 5
# The two agree if one number is less than this many times the other.
AGREEMENT = 1.5


class Opinion(NamedTuple):
    """Groups found by density."""

    clusters: int
    outside: float  # share of the images in no group


def density_opinion(points: Points) -> Opinion:
    """How many dense groups the points (n, D) form."""
    smallest = int(np.clip(len(points) // SMALLEST_SHARE, LEAST, SMALLEST))
    labels = HDBSCAN(min_cluster_size=smallest, min_samples=10, copy=True).fit_predict(spectral_embedding(points))
    return Opinion(int(labels.max()) + 1, float((labels < 0).mean()))


def agree(clusters: int, opinion: Opinion) -> bool:
    """Whether the two numbers are close."""
    return max(clusters, opinion.clusters) < AGREEMENT * min(clusters, opinion.clusters)


def spectral_embedding(points: Points) -> NDArray[np.float64]:
    """The leading eigenvectors of D^-1/2 W D^-1/2 for the graph W of nearest points, rows of unit length: (n, E)."""
    values, vectors = eigsh(
        neighbor_graph(points), k=min(DIMENSIONS, len(points) - 2), which="LA", v0=np.ones(len(points))
    )
    embedding = vectors * np.clip(values, 0, None) ** STEPS
    return np.asarray(embedding / np.maximum(np.linalg.norm(embedding, axis=1, keepdims=True), 1e-12))


def neighbor_graph(points: Points) -> csr_matrix:
    """D^-1/2 W D^-1/2 for the graph W that joins each point to its nearest: (n, n)."""
    images = len(points)
    count = min(GRAPH_NEIGHBORS, images - 1)
    neighbors = nearest_points(points, count)
    ends = (np.repeat(np.arange(images), count), neighbors.ravel())
    directed = csr_matrix((np.ones(images * count), ends), shape=(images, images))
    graph = directed.maximum(directed.T)
    scale = diags(1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel()))
    return csr_matrix(scale @ graph @ scale)
