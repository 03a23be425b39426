"""k-means on the same features: the baseline for every result.

Shapes: N images, D feature width, R components, K clusters.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

RESTARTS = 10
# Centers are fitted on at most this many random images, as many as heads learn from; all images are then assigned.
ENOUGH = 40_000
# The main directions, in which k-means is run: what the others hold hardly moves a center, and takes most of the time.
COMPONENTS = 128
CHUNK = 16_384

Floats = NDArray[np.float32]


def kmeans(features: Floats, clusters: int, *, seed: int) -> NDArray[np.int32]:
    """The best of ten runs of k-means on principal components of l2-normalized features: (N, D) -> (N,)."""
    from sklearn.cluster import KMeans  # late: it would take its time at every start

    drawn = np.random.default_rng(seed).permutation(len(features))[:ENOUGH]
    # One thread: with more, the order of sums, and so an occasional label, would change from run to run.
    with threadpool_limits(1):
        known = _unit(features[np.sort(drawn)])
        main = _Main.of(known)
        centers = KMeans(clusters, n_init=RESTARTS, random_state=seed).fit(main.components(known)).cluster_centers_
        parts = (features[start : start + CHUNK] for start in range(0, len(features), CHUNK))
        labels = [_nearest(main.components(_unit(part)), centers) for part in parts]
    return np.concatenate(labels).astype(np.int32)


class _Main(NamedTuple):
    """The main directions of some vectors."""

    mean: Floats  # (D,)
    directions: Floats  # (D, R)

    @classmethod
    def of(cls, vectors: Floats) -> "_Main":
        mean = vectors.mean(axis=0)
        centered = vectors - mean
        directions = np.linalg.eigh(centered.T @ centered)[1][:, -COMPONENTS:]  # eigenvalues rise
        return cls(mean, directions.astype(np.float32))

    def components(self, vectors: Floats) -> Floats:
        return np.asarray((vectors - self.mean) @ self.directions, dtype=np.float32)


def _unit(features: Floats) -> Floats:
    length = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.maximum(length, 1e-12), dtype=np.float32)


def _nearest(components: Floats, centers: Floats) -> NDArray[np.int64]:
    distance = (centers**2).sum(axis=1) - 2.0 * components @ centers.T  # (n, K), up to a constant per image
    nearest: NDArray[np.int64] = distance.argmin(axis=1)
    return nearest
