"""The chance that an image is in the right group, from the share of its neighbors in that group (paper III-C).

Shapes: N images, K groups, S neighbors.
"""

import numpy as np
from numpy.typing import NDArray

_CHUNK = 65536


def chance(reliability: NDArray[np.float32], neighbors: int, clusters: int) -> NDArray[np.float32]:
    """(S r_i + 1/K) / (S + 1): r_i with one more neighbor, from a random group: (N,) -> (N,).

    This is the posterior mean with a Beta prior that has mean 1/K and the weight of one observation. The prior matters
    if there are few neighbors: for ten groups, 5 of 5 neighbors give 0.85, and 100 of 100 give 0.99. The chance never
    reaches 0 or 1, and has the same order as r.
    """
    if neighbors < 1 or clusters < 1:
        raise ValueError(f"need at least one neighbor and one cluster, got {neighbors} and {clusters}")
    counted = reliability.astype(np.float64) * neighbors
    return ((counted + 1 / clusters) / (neighbors + 1)).astype(np.float32)


def agreement(group: NDArray[np.int32], neighbors: NDArray[np.int64]) -> NDArray[np.float32]:
    """r_i, the share of the neighbors (N, S) in the same group: (N,). 0 for images in no group (-1)."""
    found = np.empty(len(group), dtype=np.float32)
    for start in range(0, len(group), _CHUNK):
        part = slice(start, start + _CHUNK)
        found[part] = (group[neighbors[part]] == group[part, None]).mean(axis=1)
    return np.where(group < 0, np.float32(0), found)
