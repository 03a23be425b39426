"""A network split in two: a frozen front and a trained tail (paper III-C, on a CPU).

The front takes most of the time of a pretrained network. It runs on ONNX Runtime and needs no backward pass.
"""

import logging
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from spice.models.backbone import Backbone, eval_mode, example_images

log = logging.getLogger("spice")


class Front(Backbone):
    """The first layers of a network: images (B, C, S, S) -> the input of the next layer."""

    def __init__(self, network: Backbone, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.features = network.features
        self.exportable = network.exportable  # type: ignore[method-assign]

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.layers(images)
        return out


class Tail(nn.Sequential):
    """The last layers: maps -> (B, D). Batch norms keep their statistics, even in training mode.

    These match the output of the frozen front. So the features of an image do not depend on the rest of the batch,
    and a batch may be small.
    """

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for part in self.modules():
            if isinstance(part, _BatchNorm):
                part.eval()
        return self


class Parts(NamedTuple):
    """The two parts of a network, which share its weights."""

    front: Front | None  # None: the whole network is trained
    tail: nn.Module


def split_network(network: Backbone, *, share: float, size: int, channels: int) -> Parts:
    """Split before the last `share` (rounded) of the layers that have weights.

    A network that cannot be split is trained as a whole.
    """
    layers = network.chain()
    with_weights = [place for place, layer in enumerate(layers) if list(layer.parameters())]
    count = max(1, round(share * len(with_weights)))
    if share == 1 or count == len(with_weights):
        return Parts(None, network)
    if not _chain_agrees(network, layers, size=size, channels=channels):
        log.warning("%s cannot be split into layers; training all of it", type(network).__name__)
        return Parts(None, network)
    start = with_weights[-count]
    return Parts(Front(network, layers[:start]).eval().requires_grad_(False), Tail(*layers[start:]))


@torch.no_grad()
def _chain_agrees(network: Backbone, layers: list[nn.Module], *, size: int, channels: int) -> bool:
    """Whether the layers in sequence compute the same as the network. A new version of a library may break this."""
    images = example_images(size=size, channels=channels).to(next(network.parameters()).device)
    with eval_mode(network):
        expected: Tensor = network(images)
        chained: Tensor = nn.Sequential(*layers)(images)
    scale = max(1.0, expected.abs().max().item())
    return chained.shape == expected.shape and torch.allclose(chained, expected, atol=1e-4 * scale)
