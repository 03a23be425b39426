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
    """A network whose pooled features are the mean of its last feature map, unless a subclass pools otherwise."""

    features: int  # D

    def feature_map(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, D, h, w)."""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, D)."""
        return self.feature_map(images).mean(dim=(2, 3))

    def chain(self) -> list[nn.Module]:
        """Layers that in sequence equal `forward`; the network itself if it cannot be split."""
        return [self]

    def exportable(self, images: Tensor) -> AbstractContextManager[None]:  # noqa: ARG002
        """A context in which the network can be traced for images of this shape."""
        return nullcontext()


class Pool(nn.Module):
    """The mean over all places: (B, D, h, w) -> (B, D)."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps.mean(dim=(2, 3))


class Pretrained(NamedTuple):
    """A trained network, and the size and normalization of its images."""

    network: Backbone
    size: int
    normalization: Normalization


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Eval mode inside; afterwards every submodule is back in its own mode."""
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def check_shape(images: Tensor, name: str, channels: int, size: int) -> None:
    """Require images of the shape that the encoder called `name` takes."""
    if tuple(images.shape[1:]) != (channels, size, size):
        expected = f"(B, {channels}, {size}, {size})"
        raise ValueError(f"{name} takes images of shape {expected}, not {tuple(images.shape)}")


def example_images(*, size: int, channels: int) -> Tensor:
    """Two images of noise in [-1, 1], to compare two forms of a network: (2, C, S, S)."""
    return torch.rand(2, channels, size, size, generator=torch.Generator().manual_seed(0)) * 2 - 1


def weights_hash(module: nn.Module) -> str:
    """A hash of the parameters and buffers with their names."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def patches_as_map(tokens: Tensor, height: int, width: int) -> Tensor:
    """A transformer's patch tokens, which come after any class and register tokens, as a map."""
    patches = tokens[:, tokens.shape[1] - height * width :]  # (B, h * w, D)
    return patches.transpose(1, 2).reshape(len(tokens), -1, height, width)  # (B, D, h, w)


def initialize_convolutions_(network: nn.Module) -> None:
    """He's initialization by fan-out, as both ResNet and WideResNet were published."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
