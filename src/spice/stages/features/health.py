"""Whether a feature model is learning, told without labels: alignment, uniformity, collapsed dimensions.

Alignment and uniformity are Wang and Isola's (2020); collapse is Jing et al.'s (2022).
Shapes: N images, D feature width, P projection width.
"""

from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor


class Health(NamedTuple):
    """One line about the features of an epoch."""

    alignment: float  # squared distance of the two views of an image: 0 is perfect, 2 is chance
    uniformity: float  # ln mean exp(-2 d^2) over pairs of images: 0 is collapse, about -4 a whole sphere
    collapsed: float  # share of the feature space's directions in which nearly nothing varies

    def __str__(self) -> str:
        collapse = f"{self.collapsed:.0%} of dimensions collapsed"
        return f"alignment {self.alignment:.3f}, uniformity {self.uniformity:.2f}, {collapse}"


def alignment(first: Tensor, second: Tensor) -> float:
    """Mean squared distance between the two views' unit vectors (N, P)."""
    return (first - second).square().sum(dim=1).mean().item()


def uniformity(projections: Tensor) -> float:
    """ln of the mean of exp(-2 |z_i - z_j|^2) over pairs of different images, for unit vectors (N, P)."""
    return torch.pdist(projections).square().mul(-2.0).exp().mean().log().item()


def collapsed(features: Tensor, *, below: float = 0.01) -> float:
    """Share of principal directions of (N, D) whose deviation is less than `below` times the largest one's.

    N images span at most N - 1 directions, so only that many are counted.
    """
    deviations: Tensor = torch.linalg.svdvals(features - features.mean(dim=0))[: len(features) - 1]
    if deviations[0] == 0:
        return 1.0
    return (deviations < below * deviations[0]).float().mean().item()


class Examination:
    """Keeps what the last steps computed anyway, so that health costs no extra pass."""

    def __init__(self, *, images: int = 1024) -> None:
        self._images = images
        self._kept: deque[tuple[Tensor, Tensor, Tensor]] = deque()

    def see(self, features: Tensor, first: Tensor, second: Tensor) -> None:
        """Remember one step's features (B, D) and projections (B, P), and forget those of long ago."""
        self._kept.append((features.detach(), first.detach(), second.detach()))
        while sum(len(kept[0]) for kept in self._kept) - len(self._kept[0][0]) >= self._images:
            self._kept.popleft()

    def state_dict(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """What is remembered, for a checkpoint."""
        return list(self._kept)

    def load_state_dict(self, kept: list[tuple[Tensor, Tensor, Tensor]]) -> None:
        """Remember what a checkpoint did."""
        self._kept = deque(kept)

    def result(self) -> Health:
        """Health over what is remembered."""
        # On the CPU, where what came from a checkpoint is.
        features, first, second = (
            torch.cat([part.float().cpu() for part in parts]) for parts in zip(*self._kept, strict=True)
        )
        return Health(alignment(first, second), uniformity(first), collapsed(features))
