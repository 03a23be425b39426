"""The interface of a feature model F: images in, one feature vector each out (paper III-A).

Shapes: B images, C channels, S pixels on a side, D feature width, h x w places of the last feature map.
"""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from spice.settings import Normalization


class Backbone(nn.Module):
    """A network whose features are the mean of its last feature map, unless a subclass overrides `forward`."""

    features: int  # D

    def feature_map(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, D, h, w)."""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, D)."""
        return self.feature_map(images).mean(dim=(2, 3))

    def chain(self) -> list[nn.Module]:
        """Layers that compute `forward` in sequence; the network itself if it cannot be split."""
        return [self]

    def exportable(self, images: Tensor) -> AbstractContextManager[None]:  # noqa: ARG002
        """Context manager in which the network can be traced with images of this shape."""
        return nullcontext()


class Pool(nn.Module):
    """Global average pooling: (B, D, h, w) -> (B, D)."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps.mean(dim=(2, 3))


class Pretrained(NamedTuple):
    """A trained network with its image size and normalization."""

    network: Backbone
    size: int
    normalization: Normalization


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Switch to eval mode; on exit, restore the mode of every submodule."""
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def check_shape(images: Tensor, name: str, channels: int, size: int) -> None:
    """Raise a ValueError unless images have the shape that the encoder called `name` takes."""
    if tuple(images.shape[1:]) != (channels, size, size):
        expected = f"(B, {channels}, {size}, {size})"
        raise ValueError(f"{name} takes images of shape {expected}, not {tuple(images.shape)}")


def example_images(*, size: int, channels: int) -> Tensor:
    """Two images of uniform noise in [-1, 1], to check that two forms of a network agree: (2, C, S, S)."""
    return torch.rand(2, channels, size, size, generator=torch.Generator().manual_seed(0)) * 2 - 1


def weights_hash(module: nn.Module) -> str:
    """A hash of the names and values of all parameters and buffers."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def patches_as_map(tokens: Tensor, height: int, width: int) -> Tensor:
    """The patch tokens of a transformer as a feature map. Class and register tokens come before them."""
    patches = tokens[:, tokens.shape[1] - height * width :]  # (B, h * w, D)
    return patches.transpose(1, 2).reshape(len(tokens), -1, height, width)  # (B, D, h, w)


def initialize_convolutions_(network: nn.Module) -> None:
    """He initialization with fan-out, as published for both ResNet and WideResNet."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
