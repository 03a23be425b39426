"""Encoders by name, behind one protocol: anything that maps images to features can be the feature model (paper III-A).

A new encoder takes one file: a class with the members of `Encoder`, and `register_encoder("prefix", loader)`, after
which `load_encoder("prefix:REST")` returns `loader("REST", options)`. See tests/models/test_a_new_encoder.py.
"""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from spice.engine.device import autocast, choose_device, module_to_device, to_device
from spice.errors import UserError
from spice.models.backbone import Backbone, Pretrained, check_shape, eval_mode, weights_hash
from spice.models.efficientnet import SCALES, load_lite
from spice.models.frozen import FEATURES, MAP, Session, frozen_session
from spice.models.hub import may_download
from spice.models.huggingface import load_huggingface
from spice.models.int8 import has_int8
from spice.models.networks import NETWORKS
from spice.models.onnx_file import OnnxEncoder
from spice.models.precomputed import PrecomputedFeatures
from spice.models.timm_models import load_timm
from spice.models.weights import NetworkCard, load_network
from spice.settings import FixedPrecision, Normalization

# The name of a feature model trained on the user's own images.
SCRATCH = "scratch"


class Encoder(Protocol):
    """The interface that the stages use."""

    name: str
    size: int  # pixels on a side
    channels: int
    normalization: Normalization
    features: int  # width of the feature vector

    @property
    def module(self) -> Backbone | None:
        """The network if it can be trained further, else None."""

    def encode(self, images: Tensor) -> Tensor:
        """Normalized images (B, C, S, S) -> features (B, D), without gradient, in eval mode."""

    def feature_map(self, images: Tensor) -> Tensor:
        """Normalized images (B, C, S, S) -> features at each place (B, D, h, w)."""

    def fingerprint(self) -> str:
        """A hash of everything that the features depend on: the weights, the file, or the features themselves."""


class Options(NamedTuple):
    """Options of a loader. None: the encoder's default."""

    size: int | None = None
    normalization: Normalization | None = None
    device: torch.device | str = "cpu"
    download: bool = False  # whether weights may be downloaded


Loader = Callable[[str, Options], Encoder]


def register_encoder(prefix: str, loader: Loader) -> None:
    """Make `load_encoder("prefix:REST")` return `loader("REST", options)`."""
    _LOADERS[prefix] = loader


def load_encoder(
    name: str,
    *,
    size: int | None = None,
    normalization: Normalization | None = None,
    device: torch.device | str = "cpu",
    download: bool = False,
) -> Encoder:
    """The encoder called `name`, with its own size and normalization by default.

    `lite0` or `lite2`; FILE.safetensors or `resnet18:FILE.safetensors`; `hf:NAME` or `hf:FOLDER`; `timm:NAME`;
    `onnx:FILE`; `features:FILE`; or a prefix that was registered.

    Args:
        download: whether weights may be downloaded. Pass True only for a name that the user has just given, not for one
            from a run or a model file, which may come from a stranger.
    """
    if size is not None and size < 1:
        raise UserError(f"the image size must be at least 1 px, got {size}")
    options = Options(size, normalization, device, download or may_download())
    prefix, _, rest = name.partition(":")
    if name in SCALES:
        return _torch_encoder(name, load_lite(name), options)
    if prefix in _LOADERS and rest:
        return _LOADERS[prefix](rest, options)
    if name.endswith(".safetensors"):
        return _load_saved(name, options)
    raise UserError(
        f"unknown encoder {name!r}; choose lite0, lite2, hf:NAME, timm:NAME, onnx:FILE, features:FILE, "
        "FILE.safetensors, or a network with its weights, such as resnet18:FILE.safetensors"
    )


def precision_of(encoder: Encoder | None) -> FixedPrecision:
    """The precision in which the encoder computes."""
    return encoder.precision if isinstance(encoder, TorchEncoder) else "float32"


def with_precision(encoder: Encoder, precision: FixedPrecision) -> Encoder:
    """The same encoder, computing in this precision."""
    if precision == precision_of(encoder):
        return encoder
    if not isinstance(encoder, TorchEncoder):
        raise UserError(f"{encoder.name} does not support 8-bit integers; remove precision = 'int8'")
    return encoder.with_precision(precision)


def load_trained(path: Path, *, device: torch.device | str = "cpu") -> "TorchEncoder":
    """The feature model that stage 1 wrote to `path`. Its name is `scratch`, wherever the file is."""
    module, card = load_network(path)
    return TorchEncoder(SCRATCH, module, card.normalization, size=card.size, device=device, card=card)


class TorchEncoder:
    """A torch network. On a CPU, ONNX Runtime computes its features."""

    def __init__(
        self,
        name: str,
        module: Backbone,
        normalization: Normalization,
        *,
        size: int,
        device: torch.device | str = "cpu",
        card: NetworkCard | None = None,
        precision: FixedPrecision = "float32",
    ) -> None:
        if precision == "int8" and not has_int8(module):
            raise UserError(f"{name} does not support 8-bit integers; remove precision = 'int8'")
        self.name = name
        self.precision = precision
        self.card = card  # the header for saving the weights; None: the name is enough to build the network
        self.size = size
        self.channels = len(normalization.mean)
        self.normalization = normalization
        self.features = module.features
        self.device = torch.device(device)
        self.module = module_to_device(module.eval(), self.device) if self.device.type != "cpu" else module.eval()
        self._session: Session | None = None
        self._exported_version = -1
        self._export_lock = Lock()

    def with_precision(self, precision: FixedPrecision) -> "TorchEncoder":
        """The same network, computing in this precision."""
        return TorchEncoder(
            self.name,
            self.module,
            self.normalization,
            size=self.size,
            device=self.device,
            card=self.card,
            precision=precision,
        )

    def encode(self, images: Tensor) -> Tensor:
        check_shape(images, self.name, self.channels, self.size)
        session = self._current_session()
        if session is not None:
            return session.run(images, FEATURES)
        # Not inference_mode, because heads are trained on the result.
        with eval_mode(self.module), torch.no_grad(), autocast(self.device):
            features: Tensor = self.module(to_device(images, self.device).to(memory_format=torch.channels_last))
        return features.float()

    def feature_map(self, images: Tensor) -> Tensor:
        check_shape(images, self.name, self.channels, self.size)
        session = self._current_session()
        if session is not None and session.has(MAP):
            return session.run(images, MAP)
        with eval_mode(self.module), torch.no_grad(), autocast(self.device):
            return self.module.feature_map(to_device(images, self.device)).float()

    def fingerprint(self) -> str:
        return weights_hash(self.module)

    def __getstate__(self) -> dict[str, object]:
        """For pickle and copy: with the weights on the CPU, without the exported network."""
        export = ("_session", "_export_lock", "_exported_version")
        state = {name: value for name, value in vars(self).items() if name not in export}
        if self.device.type != "cpu":
            state["module"] = copy.deepcopy(self.module).cpu()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._session, self._exported_version, self._export_lock = None, -1, Lock()
        try:
            self.device = choose_device(str(self.device))
        except UserError:  # this machine has no such GPU
            self.device = torch.device("cpu")
        if self.device.type != "cpu":
            self.module = module_to_device(self.module, self.device)

    def _current_session(self) -> Session | None:
        """The exported network, up to date with the weights; None if the network runs in torch."""
        int8 = self.normalization if self.precision == "int8" else None
        if self.device.type != "cpu" and int8 is None:  # integers are computed on the CPU, wherever the network is
            return None
        version = sum(value._version for value in self.module.state_dict(keep_vars=True).values())
        with self._export_lock:
            if version != self._exported_version:
                with eval_mode(self.module):
                    self._session = frozen_session(self.module, size=self.size, channels=self.channels, int8=int8)
                self._exported_version = version
            return self._session


def _torch_encoder(name: str, pretrained: Pretrained, options: Options) -> TorchEncoder:
    normalization = options.normalization or pretrained.normalization
    size = options.size or pretrained.size
    return TorchEncoder(name, pretrained.network, normalization, size=size, device=options.device)


def _load_saved(path: str, options: Options, *, network: str | None = None) -> Encoder:
    trained, card = load_network(Path(path).expanduser(), name=network)
    name = path if network is None else f"{network}:{path}"
    return _torch_encoder(name, Pretrained(trained, card.size, card.normalization), options)


def _load_named(prefix: str, load: Callable[..., Pretrained], name: str, options: Options) -> Encoder:
    found = load(name, size=options.size, download=options.download)
    return _torch_encoder(f"{prefix}:{name}", found, options)


_LOADERS: dict[str, Loader] = {
    "hf": partial(_load_named, "hf", load_huggingface),
    "timm": partial(_load_named, "timm", load_timm),
    "onnx": lambda rest, options: OnnxEncoder(Path(rest).expanduser(), options.size, options.normalization),
    "features": lambda rest, _: PrecomputedFeatures(Path(rest).expanduser()),
    **{network: partial(_load_saved, network=network) for network in NETWORKS},
}
