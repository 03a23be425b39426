"""A trained network as one safetensors file, whose header names the network and the images it takes."""

from pathlib import Path
from typing import Self

import torch
from pydantic import PositiveInt, ValidationError, model_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from spice.errors import UserError
from spice.files import written_atomically
from spice.models.backbone import Backbone
from spice.models.networks import network
from spice.models.partial_whitening import PartialWhitening
from spice.models.resnet import Stem
from spice.settings import IMAGENET, Normalization, Settings

HEADER = "spice.network"


class NetworkCard(Settings):
    """The network that the weights belong to, and the images it was trained on."""

    network: str
    stem: Stem | None = None
    width: PositiveInt | None = None
    channels: PositiveInt = 3
    partial_whitening: bool = False
    size: PositiveInt
    normalization: Normalization

    @model_validator(mode="after")
    def _channels_agree(self) -> Self:
        if not len(self.normalization.mean) == len(self.normalization.std) == self.channels:
            raise ValueError(f"a normalization of {len(self.normalization.mean)} channels for {self.channels}")
        return self

    def build(self) -> Backbone:
        """The network, untrained."""
        built = network(self.network, stem=self.stem, width=self.width, channels=self.channels)
        return PartialWhitening(built) if self.partial_whitening else built


def save_network(path: Path, trained: Backbone, card: NetworkCard) -> None:
    """Write the weights under the card, whole or not at all."""
    weights = {name: value.detach().cpu().contiguous() for name, value in trained.state_dict().items()}
    with written_atomically(path) as temporary:
        # Not save_file, which makes files that only their owner can read.
        temporary.write_bytes(save(weights, {HEADER: card.model_dump_json()}))


def load_network(path: Path, *, name: str | None = None) -> tuple[Backbone, NetworkCard]:
    """The network of a file written by `save_network`.

    Or, given its `name`, a ResNet from ImageNet weights in torchvision's layout.
    """
    weights, header = _read(path)
    card = _card(path, header) if HEADER in header else _card_of_published(path, weights, name)
    if name is not None and card.network != name:
        raise UserError(f"{path} holds {card.network}, not {name}; use {card.network}:{path}")
    built = card.build()
    _load_strictly(path, built, weights, card)
    return built.eval(), card


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    if not path.is_file():
        raise UserError(f"there is no file {path} to load a network from")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except SafetensorError as error:
        raise UserError(
            f"{path} is not a safetensors file ({error}); convert the weights, since pickled ones are never opened"
        ) from error


def _card(path: Path, header: dict[str, str]) -> NetworkCard:
    try:
        return NetworkCard.model_validate_json(header[HEADER])
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(
            f"the header of {path} cannot be read ({'.'.join(map(str, first['loc']))}: {first['msg']}); "
            "was it written by another version?"
        ) from error


def _card_of_published(path: Path, weights: dict[str, Tensor], name: str | None) -> NetworkCard:
    """The card inferred from shapes: a 7x7 stem is ImageNet's. A 3x3 stem does not show whether a pool follows."""
    stem = weights.get("conv1.weight")
    if name is None or stem is None or stem.ndim != 4 or stem.shape[1] != 3 or stem.shape[2] != 7:
        raise UserError(
            f"{path} does not say which network it holds; files written by spice do, and resnet18:FILE or "
            "resnet34:FILE take ImageNet weights in torchvision's layout"
        )
    return NetworkCard(network=name, stem="imagenet", width=stem.shape[0], size=224, normalization=IMAGENET)


def _load_strictly(path: Path, built: Backbone, weights: dict[str, Tensor], card: NetworkCard) -> None:
    # The classifier is not part of the features; older published files lack the counters of batches.
    kept = {name: value for name, value in weights.items() if not name.startswith("fc.")}
    for name, value in built.state_dict().items():
        if name.endswith("num_batches_tracked"):
            kept.setdefault(name, torch.zeros_like(value))
    try:
        built.load_state_dict(kept, strict=True)
    except RuntimeError as error:
        raise UserError(f"{path} does not fit {card.network}: {' '.join(str(error).split())[:200]}") from error
