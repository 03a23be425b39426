"""What the autoencoders share: a small convolutional network, one training loop, and k-means on the codes.

Shapes: N images, B of them in a batch, C channels, S pixels on a side, W width, Z length of a code.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor, nn

from spice.augment import Plain
from spice.benchmark.choice import AutoencoderSettings
from spice.data.batches import batches
from spice.progress import Progress, silent
from spice.randomness import generator
from spice.settings import IMAGENET, IMAGENET_GRAY, AugmentSettings

Labels = NDArray[np.int64]
CHUNK = 512


class Images(Protocol):
    """What is needed of an image store."""

    channels: int

    def __len__(self) -> int: ...
    def take(self, positions: Tensor) -> Tensor:
        """uint8 (B, C, S, S)."""


# The loss of a batch of images, which may draw random numbers from the generator.
Loss = Callable[[Tensor, torch.Generator], Tensor]


class Autoencoder(nn.Module):
    """Three convolutions down to a code, and the same way back."""

    def __init__(self, settings: AutoencoderSettings, *, channels: int, codes: int | None = None) -> None:
        super().__init__()
        if settings.size % 8:
            raise ValueError(f"the autoencoder's images must be a multiple of 8 pixels wide, not {settings.size}")
        width, side = settings.width, settings.size // 8
        flat = 4 * width * side * side
        self.encode = nn.Sequential(
            *_down(channels, width),
            *_down(width, 2 * width),
            *_down(2 * width, 4 * width),
            nn.Flatten(),
            nn.Linear(flat, codes or settings.code),
        )
        self.decode = nn.Sequential(
            nn.Linear(settings.code, flat),
            nn.Unflatten(1, (4 * width, side, side)),
            *_up(4 * width, 2 * width),
            *_up(2 * width, width),
            nn.ConvTranspose2d(width, channels, 4, stride=2, padding=1),
        )

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, C, S, S)."""
        rebuilt: Tensor = self.decode(self.encode(images))
        return rebuilt


class Pixels:
    """Images as the networks see them, normalized, at the autoencoder's size."""

    def __init__(self, images: Images, size: int) -> None:
        self.images, self.channels = images, images.channels
        self.plain = Plain(AugmentSettings(), size, IMAGENET_GRAY if images.channels == 1 else IMAGENET)

    def __len__(self) -> int:
        return len(self.images)

    def take(self, positions: Tensor) -> Tensor:
        """(B,) -> (B, C, S, S)."""
        return self.plain(self.images.take(positions))


def train(
    network: nn.Module,
    loss: Loss,
    pixels: Pixels,
    settings: AutoencoderSettings,
    *,
    seed: int,
    purpose: str,
    progress: Progress = silent,
) -> None:
    """Minimize the loss with Adam over all images, epoch by epoch; the network is trained in place."""
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    device = next(network.parameters()).device
    batch = min(settings.batch, len(pixels))
    steps = settings.epochs * (len(pixels) // batch)
    network.train()
    for epoch in range(settings.epochs):
        for part in batches(len(pixels), batch, seed=seed, stage=purpose, epoch=epoch):
            random = generator(seed, purpose, "noise", epoch, part.number)
            value = loss(pixels.take(part.images).to(device), random)
            optimizer.zero_grad(set_to_none=True)
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            progress(purpose, epoch * (len(pixels) // batch) + part.number + 1, steps)
    network.eval()


@torch.no_grad()
def codes_of(encode: Callable[[Tensor], Tensor], pixels: Pixels, *, device: torch.device) -> Tensor:
    """The code of every image, (N, Z)."""
    parts = torch.arange(len(pixels)).split(CHUNK)  # type: ignore[no-untyped-call]
    return torch.cat([encode(pixels.take(part).to(device)).cpu() for part in parts])


def kmeans_labels(codes: Tensor, clusters: int, *, seed: int) -> Labels:
    """k-means on codes (N, Z), the best of ten starts."""
    labels: Labels = KMeans(clusters, n_init=10, random_state=seed).fit_predict(codes.numpy()).astype(np.int64)
    return labels


def _down(width_in: int, width: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(width_in, width, 4, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()


def _up(width_in: int, width: int) -> tuple[nn.Module, ...]:
    return nn.ConvTranspose2d(width_in, width, 4, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()
