"""Agglomerative clustering: from single images upward, the merge that adds least variance first (Ward)."""

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from spice.benchmark.rivals.rival import Features, Labels, unit
from spice.benchmark.rivals.spectral import graph

# All pairs of this many images are held at once (0.8 GB); beyond, only neighbors are merged.
ALL_PAIRS = 10_000
NEIGHBORS = 20


def fit(features: Features, clusters: int, *, seed: int) -> Labels:  # noqa: ARG001 - nothing here is random
    """The tree cut where `clusters` are left."""
    connectivity = graph(features, NEIGHBORS) if len(features) > ALL_PAIRS else None
    model = AgglomerativeClustering(clusters, linkage="ward", connectivity=connectivity)
    labels: Labels = model.fit_predict(unit(features)).astype(np.int64)
    return labels
