"""The clusters that heads start from: the best of a few runs of k-means for each head (beyond the paper).

The first prototypes of a head with random weights all lie near the mean of the features, and some never separate.
Centers from k-means++ and a few rounds of Lloyd's algorithm are separate from the start, and differ between heads.

An image is stored as (x, 1) and a center as (c, -|c|²/2). Their inner product measures closeness, and the last column
of a sum of images is their count.

Shapes: N images, n in the sample, D feature width, K clusters, H heads, S runs of all heads together.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core.probs import cluster_probs, one_hot_argmax
from spice.engine.run import Run
from spice.settings import HeadSettings
from spice.stages.views import Views

# k-means runs on a sample: this many images per cluster, and at least this many in total.
IMAGES_PER_CLUSTER, MIN_IMAGES = 50, 5_000
# Rounds of Lloyd's algorithm for every run, then for the best run of each head.
ROUNDS, MORE_ROUNDS = 5, 10
CANDIDATES = 4  # for each next center of k-means++
# Probabilities are softmax(-distance² / 2 / TEMPERATURE), with distances in units of the root mean square length of the
# features: soft enough that no two images of a cluster get the same probability.
TEMPERATURE = 0.05
# A few runs (s) are computed at a time, so that distances (s, n, K) have at most this many elements.
MAX_NUMBERS = 50_000_000


class InitialClusters(NamedTuple):
    """Initial centers for every head."""

    centers: Tensor  # (H, K, D + 1)
    unit: bool  # whether features are scaled to unit length first
    mean_square: float  # of the features' lengths

    def probs(self, features: Tensor) -> Tensor:
        """Probabilities (H, M, K) of a batch with features (M, D), from the distances to the centers of each head."""
        images = _append_one(F.normalize(features, dim=1) if self.unit else features)  # (M, D + 1)
        return cluster_probs(_closeness(images, self.centers).mT / (TEMPERATURE * self.mean_square))


class _Sample(NamedTuple):
    """A sample of the images."""

    rows: Tensor  # (n,)
    images: Tensor  # (n, D + 1)
    unit: bool
    mean_square: float


def clusters_by_kmeans(views: Views, settings: HeadSettings, run: Run) -> InitialClusters:
    """The best of `settings.start_runs` runs of k-means for each head, on a sample of the images."""
    random = run.generator("heads", "start")
    sample = _draw_sample(views, settings, random)
    at_once = max(1, MAX_NUMBERS // (len(sample.images) * settings.clusters * settings.start_runs))
    counts = [min(at_once, settings.heads - first) for first in range(0, settings.heads, at_once)]
    centers = torch.cat([_best_runs(sample.images, settings, count, random) for count in counts])
    return InitialClusters(centers.to(run.device), sample.unit, sample.mean_square)


def clusters_from_cut(views: Views, settings: HeadSettings, run: Run, cut: Tensor | None) -> InitialClusters:
    """The groups `cut` (N,) for every head. The heads still differ in their weights."""
    if cut is None:
        raise ValueError("heads that start from a cut need its groups")
    sample = _draw_sample(views, settings, run.generator("heads", "start"))
    centers = _group_centers(sample.images, cut[sample.rows], settings.clusters)
    return InitialClusters(centers.expand(settings.heads, -1, -1).to(run.device), sample.unit, sample.mean_square)


def _draw_sample(views: Views, settings: HeadSettings, random: torch.Generator) -> _Sample:
    count = max(MIN_IMAGES, IMAGES_PER_CLUSTER * settings.clusters)
    rows = torch.randperm(len(views), generator=random)[:count].sort().values
    features = views.take_bank(rows)  # (n, D)
    unit = views.bank is None  # the features of a bank had one length before they were centered
    features = F.normalize(features, dim=1) if unit else features
    mean_square = max(float(features.square().sum(dim=1).mean()), 1e-12)
    return _Sample(rows, _append_one(features), unit, mean_square)


def _group_centers(images: Tensor, group: Tensor, clusters: int) -> Tensor:
    """The centers (K, D + 1) of the groups (n,) of images (n, D + 1)."""
    sums = torch.zeros(clusters, images.shape[1], dtype=images.dtype).index_add_(0, group, images)
    return _center_at(sums / sums[:, -1:].clamp(min=1))


def _best_runs(images: Tensor, settings: HeadSettings, heads: int, random: torch.Generator) -> Tensor:
    """Centers (H, K, D + 1) for `heads` heads from images (n, D + 1)."""
    runs = _lloyd(_kmeans_plus_plus(images, settings.clusters, heads * settings.start_runs, random), images, ROUNDS)
    closeness = _closeness(images, runs).amax(dim=1).sum(dim=1)  # (S,)
    best = closeness.view(heads, -1).argmax(dim=1) + torch.arange(heads) * settings.start_runs
    return _lloyd(runs[best], images, MORE_ROUNDS)


def _closeness(images: Tensor, centers: Tensor) -> Tensor:
    """Minus half the squared distance, up to a constant per image: (n, D + 1) and (S, K, D + 1) -> (S, K, n)."""
    return (centers.flatten(end_dim=1) @ images.T).view(*centers.shape[:2], -1)


def _append_one(features: Tensor) -> Tensor:
    return F.pad(features, (0, 1), value=1.0)


def _center_at(point: Tensor) -> Tensor:
    """The center (c, -|c|²/2) at an image, or at a mean of images (c, 1): (..., D + 1) -> (..., D + 1)."""
    center = point.clone()
    center[..., -1] = center[..., :-1].square().sum(dim=-1) / -2
    return center


def _kmeans_plus_plus(images: Tensor, clusters: int, runs: int, random: torch.Generator) -> Tensor:
    """Greedy k-means++: each next center is the best of a few images, drawn in proportion to their squared distance."""
    all_runs = torch.arange(runs)
    square = images[:, :-1].square().sum(dim=1)  # (n,)
    first = _center_at(images[torch.randint(len(images), (runs, 1), generator=random)])
    centers = [first[:, 0]]  # K times (S, D + 1)
    distance = (square - 2 * _closeness(images, first))[:, 0].clamp_(min=0)  # (S, n), squared
    for _ in range(1, clusters):
        drawn = torch.multinomial(distance + 1e-9, CANDIDATES, replacement=True, generator=random)
        candidates = _center_at(images[drawn])  # (S, 4, D + 1)
        nearer = torch.minimum((square - 2 * _closeness(images, candidates)).clamp_(min=0), distance.unsqueeze(dim=1))
        best = nearer.sum(dim=2).argmin(dim=1)  # (S,)
        centers.append(candidates[all_runs, best])
        distance = nearer[all_runs, best]
    return torch.stack(centers, dim=1)


def _lloyd(centers: Tensor, images: Tensor, rounds: int) -> Tensor:
    """Lloyd's algorithm. A center that loses all its images stays where it is."""
    for _ in range(rounds):
        members = one_hot_argmax(_closeness(images, centers))  # (S, K, n)
        sums = (members.flatten(end_dim=1) @ images).view_as(centers)  # (S, K, D + 1)
        count = sums[..., -1:]  # (S, K, 1)
        centers = torch.where(count > 0, _center_at(sums / count.clamp(min=1)), centers)
    return centers
