"""The heads' first labels: for every head the best of a few runs of k-means (beyond the paper).

The first prototypes of a random head all lie near the mean of all images, and some never move apart. Centers from
k-means++ and a few rounds of Lloyd's algorithm are apart from the start, and differ from head to head.

An image is stored as (x, 1) and a center as (c, -|c|²/2): their product measures closeness, and the last column of a
sum of images counts them.

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

# Images in the sample that k-means runs on: the first number per cluster, but at least the second in total.
IMAGES_PER_CLUSTER, LEAST_IMAGES = 50, 5_000
# Rounds of Lloyd's algorithm for every run, then for the best run of each head.
ROUNDS, MORE_ROUNDS = 5, 10
CANDIDATES = 4
# Distances become probabilities by softmax(-distance² / 2 / TEMPERATURE), in units of the features' mean square length:
# soft enough that no two images of a cluster get the same probability.
TEMPERATURE = 0.05
# Runs are computed a few at a time, so that distances (s, n, K) have at most this many numbers.
MAX_NUMBERS = 50_000_000


class Start(NamedTuple):
    """A clustering for every head."""

    centers: Tensor  # (H, K, D + 1)
    unit: bool  # whether features are scaled to unit length first
    square: float  # mean square length of the features

    def probs(self, features: Tensor) -> Tensor:
        """Probabilities (H, M, K) of a batch's features (M, D), by their distances to each head's centers."""
        seen = _append_one(F.normalize(features, dim=1) if self.unit else features)  # (M, D + 1)
        return cluster_probs(_closeness(seen, self.centers).mT / (TEMPERATURE * self.square))


class _Sample(NamedTuple):
    """A sample of the images."""

    rows: Tensor  # (n,)
    images: Tensor  # (n, D + 1)
    unit: bool
    square: float


def kmeans_starts(views: Views, settings: HeadSettings, run: Run) -> Start:
    """The best of `settings.start_runs` runs of k-means for each head, on a sample of the images."""
    randomness = run.generator("heads", "start")
    sample = _draw_sample(views, settings, randomness)
    at_once = max(1, MAX_NUMBERS // (len(sample.images) * settings.clusters * settings.start_runs))
    parts = [min(at_once, settings.heads - first) for first in range(0, settings.heads, at_once)]
    centers = torch.cat([_best_runs(sample.images, settings, part, randomness) for part in parts])
    return Start(centers.to(run.device), sample.unit, sample.square)


def cut_start(views: Views, settings: HeadSettings, run: Run, cut: Tensor | None) -> Start:
    """The groups `cut` (N,) as the start of every head; the heads still differ by their weights."""
    if cut is None:
        raise ValueError("heads that start from a cut need its groups")
    sample = _draw_sample(views, settings, run.generator("heads", "start"))
    centers = _group_centers(sample.images, cut[sample.rows], settings.clusters)
    return Start(centers.expand(settings.heads, -1, -1).to(run.device), sample.unit, sample.square)


def _draw_sample(views: Views, settings: HeadSettings, randomness: torch.Generator) -> _Sample:
    count = max(LEAST_IMAGES, IMAGES_PER_CLUSTER * settings.clusters)
    rows = torch.randperm(len(views), generator=randomness)[:count].sort().values
    features = views.take_bank(rows)  # (n, D)
    unit = views.bank is None  # features of a bank had one length before they were centered
    features = F.normalize(features, dim=1) if unit else features
    square = max(float(features.square().sum(dim=1).mean()), 1e-12)
    return _Sample(rows, _append_one(features), unit, square)


def _group_centers(images: Tensor, group: Tensor, clusters: int) -> Tensor:
    """The center of every group, (K, D + 1), of images (n, D + 1) in groups (n,)."""
    sums = torch.zeros(clusters, images.shape[1], dtype=images.dtype).index_add_(0, group, images)
    return _center_at(sums / sums[:, -1:].clamp(min=1))


def _best_runs(images: Tensor, settings: HeadSettings, heads: int, randomness: torch.Generator) -> Tensor:
    """Centers (H, K, D + 1) for `heads` heads from images (n, D + 1)."""
    runs = _lloyd(_kmeans_plus_plus(images, settings.clusters, heads * settings.start_runs, randomness), images, ROUNDS)
    closeness = _closeness(images, runs).amax(dim=1).sum(dim=1)  # (S,)
    best = closeness.view(heads, -1).argmax(dim=1) + torch.arange(heads) * settings.start_runs
    return _lloyd(runs[best], images, MORE_ROUNDS)


def _closeness(images: Tensor, centers: Tensor) -> Tensor:
    """Minus half the squared distance, up to a constant per image: (n, D + 1) and (S, K, D + 1) -> (S, K, n)."""
    return (centers.flatten(end_dim=1) @ images.T).view(*centers.shape[:2], -1)


def _append_one(features: Tensor) -> Tensor:
    return F.pad(features, (0, 1), value=1.0)


def _center_at(place: Tensor) -> Tensor:
    """The center at the place of an image, or of a mean of images: (..., D + 1) -> (..., D + 1)."""
    place = place.clone()
    place[..., -1] = place[..., :-1].square().sum(dim=-1) / -2
    return place


def _kmeans_plus_plus(images: Tensor, clusters: int, runs: int, randomness: torch.Generator) -> Tensor:
    """Greedy k-means++: each next center is the best of a few images drawn by their distance to the nearest one."""
    every = torch.arange(runs)
    square = images[:, :-1].square().sum(dim=1)  # (n,)
    first = _center_at(images[torch.randint(len(images), (runs, 1), generator=randomness)])
    centers = [first[:, 0]]  # K times (S, D + 1)
    distance = (square - 2 * _closeness(images, first))[:, 0].clamp_(min=0)  # (S, n), squared
    for _ in range(1, clusters):
        drawn = torch.multinomial(distance + 1e-9, CANDIDATES, replacement=True, generator=randomness)
        candidates = _center_at(images[drawn])  # (S, 4, D + 1)
        nearer = torch.minimum((square - 2 * _closeness(images, candidates)).clamp_(min=0), distance.unsqueeze(dim=1))
        best = nearer.sum(dim=2).argmin(dim=1)  # (S,)
        centers.append(candidates[every, best])
        distance = nearer[every, best]
    return torch.stack(centers, dim=1)


def _lloyd(centers: Tensor, images: Tensor, rounds: int) -> Tensor:
    """Lloyd's algorithm; a center that loses all its images stays where it was."""
    for _ in range(rounds):
        members = one_hot_argmax(_closeness(images, centers))  # (S, K, n)
        sums = (members.flatten(end_dim=1) @ images).view_as(centers)  # (S, K, D + 1)
        count = sums[..., -1:]  # (S, K, 1)
        centers = torch.where(count > 0, _center_at(sums / count.clamp(min=1)), centers)
    return centers
