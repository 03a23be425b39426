"""Spherical k-means: centers are directions, and an image belongs to the one with the largest cosine.

Shapes: N images, D feature width, K clusters.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from spice.benchmark.rivals.rival import Features, Labels, unit
from spice.randomness import generator

STARTS = 10
STEPS = 300


def fit(features: Features, clusters: int, *, seed: int) -> Labels:
    """The start with the largest sum of cosines, of ten."""
    points = torch.from_numpy(unit(features))  # (N, D)
    runs = [_run(points, _start(points, clusters, generator(seed, "spherical", start))) for start in range(STARTS)]
    best = max(runs, key=lambda run: run[1])
    return best[0].numpy()


def _run(points: Tensor, centers: Tensor) -> tuple[Tensor, float]:
    """Labels (N,) where they change no more, and the sum of cosines."""
    labels = torch.full((len(points),), -1)
    for _ in range(STEPS):
        cosine, nearest = (points @ centers.T).max(dim=1)  # (N,)
        if torch.equal(nearest, labels):
            break
        labels = nearest
        members = one_hot(labels, len(centers)).float()  # (N, K)
        # An empty cluster starts anew at an image that its center describes worst.
        empty = (members.sum(dim=0) == 0).nonzero().squeeze(dim=1)
        centers = normalize(members.T @ points, dim=1)  # (K, D)
        centers[empty] = points[cosine.argsort()[: len(empty)]]
    return labels, cosine.sum().item()


def _start(points: Tensor, clusters: int, random: torch.Generator) -> Tensor:
    """Centers by k-means++: each new one at an image drawn by its squared distance to those before, (K, D)."""
    first = torch.randint(len(points), (1,), generator=random)
    centers = points[first]  # (1, D)
    distance = (1 - points @ centers[0]).clamp_(min=0)  # half the squared distance
    for _ in range(clusters - 1):
        weights = distance + 1e-12  # duplicates may leave no other choice
        chosen = points[torch.multinomial(weights, 1, generator=random)]  # (1, D)
        centers = torch.cat([centers, chosen])
        distance = torch.minimum(distance, (1 - points @ chosen[0]).clamp_(min=0))
    return centers
