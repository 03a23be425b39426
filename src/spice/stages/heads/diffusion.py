"""Features for `similarity = "graph"`: averaged over the neighbor graph by a random walk (beyond the paper).

Cosine compares two images as if there were no others, and most of a feature vector is specific to its image. So every
vector is averaged with those of its neighbors, repeatedly (a lazy random walk on the graph of nearest neighbors). What
neighbors do not share fades, and what a group shares stays. Unlike in an embedding of the graph alone, an image far
from all others, or a chain of near-duplicates, stays where its features put it.

The result is half whitened: after the walk, a few directions hold most of the variance and would dominate.

Shapes: N images, S neighbors, R components, K clusters.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from spice.settings import HeadSettings, ReliabilitySettings
from spice.stages.reliability import reliability_neighbors

# Neighbors in the graph, at most: with more, groups would merge; with fewer, they would fall apart.
NEIGHBORS = 15
# Steps of the walk. Half of them stay in place, and eight moves are enough to cross a group.
STEPS = 16
# Principal components that are averaged, unless the settings give the heads another number of them.
COMPONENTS = 128
# Directions kept per cluster: K - 1 separate K centers, and twice as many leave room for groups within clusters.
DIRECTIONS_PER_CLUSTER = 2


def graph_neighbors(images: int, settings: HeadSettings) -> int:
    """S: at most half the expected size of a cluster, or small groups would be joined to others."""
    return min(NEIGHBORS, reliability_neighbors(images, settings.clusters, ReliabilitySettings()))


def diffuse(rows: NDArray[np.float32], neighbors: NDArray[np.integer], settings: HeadSettings) -> NDArray[np.float32]:
    """Unit vectors (N, 2K or R) whose cosine follows the graph, from components (N, R) and neighbors (N, S)."""
    walk = _lazy_walk(neighbors)
    rows = rows - rows.mean(axis=0)
    for _ in range(STEPS):
        rows = walk @ rows
    rows -= rows.mean(axis=0)
    variances, directions = np.linalg.eigh(rows.T.astype(np.float64) @ rows / len(rows))  # ascending
    kept = slice(-DIRECTIONS_PER_CLUSTER * settings.clusters, None)
    spread = np.sqrt(np.maximum(variances[kept], 1e-12 * max(float(variances[-1]), 1e-30)))
    half_white = rows @ (directions[:, kept] / np.sqrt(spread)).astype(np.float32)
    length = np.linalg.norm(half_white, axis=1, keepdims=True)
    return np.asarray(half_white / np.maximum(length, 1e-30), dtype=np.float32)


def _lazy_walk(neighbors: NDArray[np.integer]) -> csr_array:
    """(I + D^-1 A) / 2, where A is 1 between images that are both each other's neighbors, 1/2 where only one is."""
    images, count = neighbors.shape
    starts = np.arange(0, neighbors.size + 1, count)
    edges = csr_array((np.ones(neighbors.size, np.float32), neighbors.ravel(), starts), shape=(images, images))
    edges = (edges + edges.T) / 2
    one_step = diags_array(0.5 / edges.sum(axis=1)) @ edges + diags_array(np.full(images, 0.5))
    return csr_array(one_step, dtype=np.float32)
