"""Spectral clustering of the graph of nearest neighbors by cosine."""

import warnings

import numpy as np
import torch
from scipy.sparse import csr_array
from sklearn.cluster import SpectralClustering

from spice.benchmark.rivals.rival import Features, Labels, unit
from spice.neighbors import nearest

NEIGHBORS = 10  # as scikit-learn's own graph has


def fit(features: Features, clusters: int, *, seed: int) -> Labels:
    """k-means on the first eigenvectors of the graph's normalized Laplacian."""
    model = SpectralClustering(clusters, affinity="precomputed", n_init=10, random_state=seed)
    with warnings.catch_warnings():
        # Well separated clusters fall apart into components: that is the answer, not a fault.
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        labels: Labels = model.fit_predict(graph(features, NEIGHBORS)).astype(np.int64)
    return labels


def graph(features: Features, neighbors: int) -> csr_array:
    """Symmetric graph (N, N): 1 between images that are both each other's neighbors, 1/2 where only one is."""
    points = unit(features)
    count = min(neighbors, len(points) - 1)
    index = nearest(torch.from_numpy(points), count).index.numpy()  # (N, S)
    # 32 bits: scikit-learn takes no wider ones.
    starts = np.arange(0, index.size + 1, count, dtype=np.int32)
    edges = csr_array((np.ones(index.size), index.ravel().astype(np.int32), starts), shape=(len(points), len(points)))
    return csr_array((edges + edges.T) / 2)
