"""A trained network as one safetensors file, whose header describes the network and its images."""

import math
from pathlib import Path
from typing import Annotated, Self

import torch
from pydantic import Field, PositiveInt, ValidationError, model_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from spice.errors import UserError, one_line
from spice.files import written_atomically
from spice.models.backbone import Backbone
from spice.models.networks import PartialWhitening, Stem, network
from spice.settings import IMAGENET, Normalization, Settings

HEADER = "spice.network"
MAX_SIZE = 8192  # pixels on a side; a header with more is damaged or hostile


class NetworkCard(Settings):
    """The network that the weights belong to, and the images it was trained on."""

    network: str
    stem: Stem | None = None
    width: PositiveInt | None = None
    channels: PositiveInt = 3
    partial_whitening: bool = False
    size: Annotated[int, Field(ge=1, le=MAX_SIZE)]
    normalization: Normalization

    @model_validator(mode="after")
    def _channels_agree(self) -> Self:
        mean, std = self.normalization.mean, self.normalization.std
        if not len(mean) == len(std) == self.channels:
            raise ValueError(f"expected a normalization of {self.channels} channels, got {len(mean)}")
        if not all(map(math.isfinite, (*mean, *std))) or not all(std):
            raise ValueError(f"mean and std must be finite, and std not 0, got {mean} and {std}")
        return self

    def build(self) -> Backbone:
        """The network, untrained."""
        built = network(self.network, stem=self.stem, width=self.width, channels=self.channels)
        return PartialWhitening(built) if self.partial_whitening else built


def cpu_weights(module: nn.Module) -> dict[str, Tensor]:
    """The state of a module as safetensors needs it: contiguous tensors on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in module.state_dict().items()}


def save_network(path: Path, trained: Backbone, card: NetworkCard) -> None:
    """Write the weights with the card as the header, atomically."""
    weights = cpu_weights(trained)
    with written_atomically(path) as temporary:
        # Not save_file, whose files only their owner can read.
        temporary.write_bytes(save(weights, {HEADER: card.model_dump_json()}))


def load_network(path: Path, *, name: str | None = None) -> tuple[Backbone, NetworkCard]:
    """The network in a file written by `save_network`.

    With `name`, such as resnet18, the file may also hold a ResNet's ImageNet weights in torchvision's layout.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path} to load a network from")
    try:
        with safe_open(path, framework="pt") as file:
            header = (file.metadata() or {}).get(HEADER)
            # Without the classifier of published weights.
            weights = {key: file.get_tensor(key) for key in file.keys() if not key.startswith("fc.")}  # noqa: SIM118
        card = _card_of_published(path, weights, name) if header is None else NetworkCard.model_validate_json(header)
    except SafetensorError as error:
        raise UserError(
            f"{path} is not a safetensors file ({error}); convert the weights: spice never opens pickle files"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(
            f"the header of {path} cannot be read ({'.'.join(map(str, first['loc']))}: {first['msg']}); "
            "was it written by another version?"
        ) from error
    if name is not None and card.network != name:
        raise UserError(f"{path} contains {card.network}, not {name}; use {card.network}:{path}")
    _refuse_mismatch(path, card, weights)
    built = card.build()
    for key, value in built.state_dict().items():
        if key.endswith("num_batches_tracked"):  # older published files lack these counters
            weights.setdefault(key, torch.zeros_like(value))
    try:
        built.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{path} does not fit {card.network}: {one_line(error)}") from error
    return built.eval(), card


def _refuse_mismatch(path: Path, card: NetworkCard, weights: dict[str, Tensor]) -> None:
    """Refuse unknown networks, and weights of other shapes, before allocating any memory."""
    try:
        with torch.device("meta"):
            expected = {name: value.shape for name, value in card.build().state_dict().items()}
    except (ValueError, RuntimeError, OverflowError) as error:
        raise UserError(f"the header of {path} does not describe a network: {one_line(error)}") from error
    for name, shape in expected.items():
        if name in weights and weights[name].shape != shape:
            found = tuple(weights[name].shape)
            raise UserError(f"{path} does not fit {card.network}: {name} is {found} instead of {tuple(shape)}")
        if name not in weights and not name.endswith("num_batches_tracked"):
            raise UserError(f"{path} does not fit {card.network}: it has no {name}")


def _card_of_published(path: Path, weights: dict[str, Tensor], name: str | None) -> NetworkCard:
    """The card of a file without a header, for a 7x7 stem. A 3x3 stem does not show whether a pool follows."""
    stem = weights.get("conv1.weight")
    if name is None or stem is None or stem.shape[1:] != (3, 7, 7):
        raise UserError(
            f"{path} does not say which network it contains; if these are ImageNet weights in torchvision's layout, "
            f"use resnet18:{path} or resnet34:{path}"
        )
    return NetworkCard(network=name, stem="imagenet", width=stem.shape[0], size=224, normalization=IMAGENET)
