"""Encoders by name, one protocol: whatever turns images into features can be the feature model (paper III-A)."""

from pathlib import Path
from threading import Lock
from typing import Protocol

import torch
from torch import Tensor

from spice.errors import UserError
from spice.models.backbone import Backbone, Pretrained, check_shape, evaluating
from spice.models.efficientnet import LITE0_NORMALIZATION, pretrained_lite0
from spice.models.frozen import Session, frozen_session
from spice.models.given_features import GivenFeatures
from spice.models.huggingface import load_huggingface
from spice.models.networks import NETWORKS
from spice.models.onnx_file import OnnxEncoder
from spice.models.timm_models import load_timm
from spice.models.weights import NetworkCard, load_network
from spice.settings import Normalization

# The name of a feature model trained on the user's own images.
SCRATCH = "scratch"

# The network was made for 224 px; at 160 it is twice as fast.
LITE0_SIZE = 160


class Encoder(Protocol):
    """What the stages ask of an encoder."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int:
        """Pixels on a side."""

    @property
    def channels(self) -> int: ...
    @property
    def normalization(self) -> Normalization: ...
    @property
    def features(self) -> int:
        """Width of the feature vector."""

    @property
    def trainable(self) -> bool: ...
    @property
    def module(self) -> Backbone | None:
        """The network, for those who want to train it; None where there is only something to run."""

    def encode(self, images: Tensor) -> Tensor:
        """Normalized images (B, C, S, S) -> features (B, D), without gradient, in eval mode."""

    def feature_map(self, images: Tensor) -> Tensor:
        """Normalized images (B, C, S, S) -> features at each place (B, D, h, w)."""


def load_encoder(
    name: str,
    *,
    size: int | None = None,
    normalization: Normalization | None = None,
    device: torch.device | str = "cpu",
) -> Encoder:
    """The encoder called `name`; size and normalization are its own unless given.

    `lite0`; FILE.safetensors or `resnet18:FILE.safetensors`; `hf:NAME` or `hf:FOLDER`; `timm:NAME`; `onnx:FILE`;
    `features:FILE`.
    """
    if size is not None and size < 1:
        raise UserError(f"images of {size} px cannot be encoded; give a size of 1 or more")
    kind, _, rest = name.partition(":")
    if kind == "onnx" and rest:
        return OnnxEncoder(Path(rest).expanduser(), size=size, normalization=normalization)
    if kind == "features" and rest:
        return GivenFeatures(Path(rest).expanduser())
    module, made_for, usual = _pretrained(name, kind, rest, size)
    return TorchEncoder(name, module, normalization or usual, size=size or made_for, device=device)


def _pretrained(name: str, kind: str, rest: str, size: int | None) -> Pretrained:
    if name == "lite0":
        return Pretrained(pretrained_lite0(), LITE0_SIZE, LITE0_NORMALIZATION)
    if kind == "hf" and rest:
        return load_huggingface(rest, size=size)
    if kind == "timm" and rest:
        return load_timm(rest, size=size)
    if kind in NETWORKS and rest:
        trained, card = load_network(Path(rest).expanduser(), name=kind)
    elif name.endswith(".safetensors"):
        trained, card = load_network(Path(name).expanduser())
    else:
        raise UserError(
            f"there is no encoder {name!r}; choose lite0, hf:NAME, timm:NAME, onnx:FILE, features:FILE, "
            "FILE.safetensors, or a network with its weights, such as resnet18:FILE.safetensors"
        )
    return Pretrained(trained, card.size, card.normalization)


def load_trained(path: Path) -> "TorchEncoder":
    """The feature model that stage 1 wrote to `path`. It is called `scratch` wherever the file may lie."""
    module, card = load_network(path)
    return TorchEncoder(SCRATCH, module, card.normalization, size=card.size, card=card)


class TorchEncoder:
    """A network held by torch; on a CPU its frozen features come from ONNX Runtime."""

    trainable = True

    def __init__(
        self,
        name: str,
        module: Backbone,
        normalization: Normalization,
        *,
        size: int,
        device: torch.device | str = "cpu",
        card: NetworkCard | None = None,
    ) -> None:
        self.name = name
        self.card = card  # what a file of its weights must say of them, where nothing else does
        self.size = size
        self.channels = len(normalization.mean)
        self.normalization = normalization
        self.features = module.features
        self.device = torch.device(device)
        self.module = module.eval().to(self.device)
        self._session: Session | None = None
        self._exported = -1
        self._exporting = Lock()

    def encode(self, images: Tensor) -> Tensor:
        check_shape(images, self.name, self.channels, self.size)
        session = self._current_session()
        if session is not None:
            return session.run(images, "features")
        with evaluating(self.module), torch.no_grad():  # not inference_mode: heads are trained on what comes out
            ready = images.to(self.device, memory_format=torch.channels_last)
            features: Tensor = self.module(ready)
        return features

    def feature_map(self, images: Tensor) -> Tensor:
        check_shape(images, self.name, self.channels, self.size)
        with evaluating(self.module), torch.no_grad():
            return self.module.feature_map(images.to(self.device))

    def _current_session(self) -> Session | None:
        """The exported network, exported again if its weights have been changed since."""
        if self.device.type != "cpu":
            return None
        changes = sum(value._version for value in self.module.state_dict(keep_vars=True).values())
        with self._exporting:
            if changes != self._exported:
                with evaluating(self.module):
                    self._session = frozen_session(self.module, size=self.size, channels=self.channels)
                self._exported = changes
            return self._session
