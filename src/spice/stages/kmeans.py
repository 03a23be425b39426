"""k-means on the same features: the baseline for every result.

Shapes: N images, D feature width, K clusters.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

RESTARTS = 10
# Centers are fitted on at most this many random images; all images are then assigned.
ENOUGH = 100_000
CHUNK = 16_384


def kmeans(features: NDArray[np.float32], clusters: int, *, seed: int) -> NDArray[np.int32]:
    """The best of ten runs of k-means on l2-normalized features: (N, D) -> (N,)."""
    drawn = np.random.default_rng(seed).permutation(len(features))[:ENOUGH]
    known = _unit(features[np.sort(drawn)])
    # One thread: with more, the order of sums, and so an occasional label, would change from run to run.
    with threadpool_limits(1, user_api="openmp"):
        centers = KMeans(clusters, n_init=RESTARTS, random_state=seed).fit(known).cluster_centers_
    labels = [_nearest(features[start : start + CHUNK], centers) for start in range(0, len(features), CHUNK)]
    return np.concatenate(labels).astype(np.int32)


def _unit(features: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.maximum(length, 1e-12), dtype=np.float32)


def _nearest(features: NDArray[np.float32], centers: NDArray[np.float32]) -> NDArray[np.int64]:
    distance = (centers**2).sum(axis=1) - 2.0 * _unit(features) @ centers.T  # (n, K), up to a constant per image
    nearest: NDArray[np.int64] = distance.argmin(axis=1)
    return nearest
