"""k-means on the same features, the baseline of every result.

Shapes: N images, n of them drawn, D feature width, R components, K clusters.
"""

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from spice.stages.groups.curve import nearest_center
from spice.trust.vectors import unit_length

RESTARTS = 10
# Centers are fitted to at most this many random images, as many as heads learn from. Then all images are assigned.
SAMPLE = 40_000
# Principal components to use: the others hardly move a center, but would take most of the time.
COMPONENTS = 128
CHUNK = 16_384


def kmeans(features: NDArray[np.float32], clusters: int, *, seed: int) -> NDArray[np.int32]:
    """The best of ten runs of k-means on principal components of l2-normalized features: (N, D) -> (N,)."""
    from sklearn.cluster import KMeans  # late: slow to import

    drawn = np.random.default_rng(seed).permutation(len(features))[:SAMPLE]
    # One thread: with more, the order of sums, and so an occasional label, would change between runs.
    with threadpool_limits(1):
        sample = unit_length(features[np.sort(drawn)])  # (n, D)
        mean = sample.mean(axis=0)
        centered = sample - mean
        directions = np.linalg.eigh(centered.T @ centered)[1][:, -COMPONENTS:].astype(np.float32)  # (D, R)
        centers = KMeans(clusters, n_init=RESTARTS, random_state=seed).fit(centered @ directions).cluster_centers_
        parts = (unit_length(features[start : start + CHUNK]) for start in range(0, len(features), CHUNK))
        labels = [nearest_center((part - mean) @ directions, centers) for part in parts]
    return np.concatenate(labels).astype(np.int32)
