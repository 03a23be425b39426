"""Statistics of a feature model, computed without labels: alignment, uniformity, collapsed dimensions.

Alignment and uniformity are from Wang and Isola (2020), dimensional collapse from Jing et al. (2022).

Shapes: N images, B in a batch, D feature width, P projection width.
"""

from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor

# Health is measured on at least this many images, from the last steps.
RECENT_IMAGES = 1024
# A direction has collapsed if its standard deviation is below this share of the largest one.
COLLAPSED_BELOW = 0.01


class Health(NamedTuple):
    """The health of the features after an epoch."""

    alignment: float  # squared distance between the two views of an image: 0 is perfect, 2 is random
    uniformity: float  # ln mean exp(-2 d^2) over pairs of images: 0 is collapsed, about -4 is uniform on the sphere
    collapsed: float  # share of the principal directions of the features with almost no variance

    def __str__(self) -> str:
        collapse = f"{self.collapsed:.0%} of dimensions collapsed"
        return f"alignment {self.alignment:.3f}, uniformity {self.uniformity:.2f}, {collapse}"


def alignment(first: Tensor, second: Tensor) -> float:
    """Mean squared distance between the unit vectors (N, P) of two views."""
    return (first - second).square().sum(dim=1).mean().item()


def uniformity(projections: Tensor) -> float:
    """ln mean exp(-2 |z_i - z_j|^2) over pairs of different images, for unit vectors (N, P)."""
    return torch.pdist(projections).square().mul(-2.0).exp().mean().log().item()


def collapsed(features: Tensor) -> float:
    """Share of the principal directions of features (N, D) with less than 1 % of the largest standard deviation.

    N images span at most N - 1 directions, so only that many are counted.
    """
    deviations: Tensor = torch.linalg.svdvals(features - features.mean(dim=0))[: len(features) - 1]
    if deviations[0] == 0:
        return 1.0
    return (deviations < COLLAPSED_BELOW * deviations[0]).float().mean().item()


class HealthMonitor:
    """Keeps the outputs of the last steps, so that measuring health needs no extra forward pass."""

    def __init__(self) -> None:
        self.recent: deque[tuple[Tensor, Tensor, Tensor]] = deque()

    def update(self, features: Tensor, first: Tensor, second: Tensor) -> None:
        """Add one step's features (B, D) and projections (B, P), and drop the oldest steps."""
        self.recent.append((features.detach(), first.detach(), second.detach()))
        while sum(len(step[0]) for step in self.recent) - len(self.recent[0][0]) >= RECENT_IMAGES:
            self.recent.popleft()

    def compute(self) -> Health:
        """The health over the last steps."""
        features, first, second = (
            torch.cat([part.float().cpu() for part in parts])  # steps from a checkpoint are on the CPU
            for parts in zip(*self.recent, strict=True)
        )
        return Health(alignment(first, second), uniformity(first), collapsed(features))
