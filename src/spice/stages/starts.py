"""Where the heads' first labels come from: a run of spherical k-means for every head (beyond the paper).

A random head's first prototypes lie near the mean of all images, and some of them stay together for good. Centers drawn
far apart (k-means++) and improved a little do not, and differ from head to head.

Shapes: N images, n of them drawn, D feature width, K clusters, H heads.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from spice.core.probs import cluster_probs
from spice.data.batches import generator

ENOUGH_PER_CLUSTER, ENOUGH = 50, 5_000
ROUNDS = 10
CANDIDATES = 4
# Cosines become probabilities by softmax(cosine / TEMPERATURE); only their order within a cluster matters.
TEMPERATURE = 0.05
# Heads worked on at once: similarities (h, n, K) stay within this many numbers.
NUMBERS = 50_000_000


def kmeans_centers(features: NDArray[np.floating], clusters: int, *, heads: int, seed: int) -> Tensor:
    """Centers of unit length, (H, K, D), of a run of spherical k-means per head on some of the features (N, D)."""
    randomness = generator(seed, "heads", "start")
    enough = max(ENOUGH, ENOUGH_PER_CLUSTER * clusters)
    drawn = torch.randperm(len(features), generator=randomness)[:enough].sort().values
    some = torch.from_numpy(np.array(features[drawn.numpy()], dtype=np.float32))
    some = F.normalize(some, dim=1)  # (n, D)
    at_once = max(1, NUMBERS // (len(some) * clusters))
    parts = [min(at_once, heads - first) for first in range(0, heads, at_once)]
    return torch.cat([_improved(_spread_out(some, clusters, part, randomness), some) for part in parts])


def start_probs(features: Tensor, centers: Tensor) -> Tensor:
    """Probabilities (H, M, K) of a batch's features (M, D), by their cosines to each head's centers (H, K, D)."""
    cosines = F.normalize(features, dim=1) @ centers.transpose(1, 2)  # (H, M, K)
    return cluster_probs(cosines / TEMPERATURE)


def _spread_out(some: Tensor, clusters: int, heads: int, randomness: torch.Generator) -> Tensor:
    """Greedy k-means++: each next center is the best of a few images drawn by their distance to the nearest one."""
    every = torch.arange(heads)
    first = torch.randint(len(some), (heads,), generator=randomness)
    centers = [some[first]]  # K times (H, D)
    distance = 1 - some[first] @ some.T  # (H, n)
    for _ in range(1, clusters):
        drawn = torch.multinomial(distance.clamp(min=1e-9), CANDIDATES, replacement=True, generator=randomness)
        candidates = some[drawn]  # (H, 4, D)
        nearer = torch.minimum(1 - candidates @ some.T, distance.unsqueeze(dim=1))  # (H, 4, n)
        best = nearer.sum(dim=2).argmin(dim=1)  # (H,)
        centers.append(candidates[every, best])
        distance = nearer[every, best]
    return torch.stack(centers, dim=1)


def _improved(centers: Tensor, some: Tensor) -> Tensor:
    """Lloyd's rounds on the sphere; a center that loses all its images stays where it was."""
    for _ in range(ROUNDS):
        nearest = (some @ centers.transpose(1, 2)).argmax(dim=2)  # (H, n)
        members = F.one_hot(nearest, centers.shape[1]).to(some.dtype)  # (H, n, K)
        sums = members.transpose(1, 2) @ some  # (H, K, D)
        centers = F.normalize(torch.where(members.sum(dim=1).unsqueeze(dim=2) > 0, sums, centers), dim=2)
    return centers
