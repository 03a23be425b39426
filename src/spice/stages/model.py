"""The trained model, which predicts the clusters of new images. Saved as safetensors and JSON, without pickle.

Shapes: Q new images, D feature width, K clusters.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import AliasChoices, Field, FiniteFloat, PositiveInt, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from spice.core import reliable
from spice.engine.device import choose_device
from spice.errors import NoticeWarning, UserError, field_of, one_line, warn_user
from spice.files import folder_written_atomically
from spice.models.encoders import (
    SCRATCH,
    Encoder,
    TorchEncoder,
    load_encoder,
    load_trained,
    precision_of,
    with_precision,
)
from spice.models.heads import Head
from spice.models.precomputed import NoEncoder
from spice.models.weights import MAX_SIZE, cpu_weights, save_network
from spice.settings import FixedPrecision, Settings
from spice.stages.bank import Bank, compare_with_bank
from spice.stages.encode import probabilities
from spice.trust.chance import chance
from spice.version import __version__

FORMAT = 1
ABOUT, HEAD, BANK, ENCODER = "model.json", "head.safetensors", "bank.safetensors", "encoder.safetensors"


class NewerModelWarning(NoticeWarning):
    """The model was made by a later version, in the same format."""


class About(Settings):
    """`model.json`."""

    format: int = FORMAT
    spice: str = __version__
    clusters: int = Field(ge=2)
    width: PositiveInt
    threshold: float = Field(ge=0.0, le=1.0)
    # "asked" before version 0.2
    neighbors: int = Field(ge=1, validation_alias=AliasChoices("neighbors", "asked"))
    unlike_below: FiniteFloat
    encoder: str
    size: int = Field(ge=1, le=MAX_SIZE)
    precision: FixedPrecision = "float32"
    # An encoder of the same name may have different weights on another machine.
    encoder_hash: str
    embedded: bool
    hashes: dict[str, str] = Field(default_factory=dict)  # of the other files; older models have none


class Predictions(NamedTuple):
    """Results for new images: the columns of `labels.csv`, and the similarity to the training images."""

    cluster: NDArray[np.int32]  # (Q,)
    chance: NDArray[np.float32]  # that this is the right cluster
    confidence: NDArray[np.float32]  # the head's softmax for it
    margin: NDArray[np.float32]  # to the softmax of the next cluster
    reliability: NDArray[np.float32]  # share of the nearest training images in the same cluster
    reliable: NDArray[np.bool_]
    nearest_other_cluster: NDArray[np.int32]
    similarity: NDArray[np.float32]  # to the nearest training image
    unlike: NDArray[np.bool_]  # unlike all training images
    probabilities: NDArray[np.float32]  # (Q, K)

    def rows(self, chosen: NDArray[np.int64]) -> "Predictions":
        """The chosen rows, in the given order."""
        return Predictions._make(column[chosen] for column in self)


class TrainedModel:
    """Encoder, head, and a bank of training images."""

    def __init__(self, encoder: Encoder, head: Head, bank: Bank, *, threshold: float) -> None:
        self.encoder = encoder
        self.head = head.eval()
        self.bank = bank
        self.threshold = threshold

    def predict_features(self, features: Tensor) -> Predictions:
        """Predict the groups of images with features (Q, D)."""
        probs = probabilities(self.head, features)
        best = probs.topk(2, dim=1)
        cluster, other = best.indices.unbind(dim=1)
        compared = compare_with_bank(self.bank, features, cluster)
        return Predictions(
            cluster=cluster.int().numpy(),
            chance=chance(compared.reliability.numpy(), self.bank.neighbors, self.head.clusters),
            confidence=best.values[:, 0].numpy(),
            margin=(best.values[:, 0] - best.values[:, 1]).numpy(),
            reliability=compared.reliability.numpy(),
            reliable=reliable(compared.reliability, threshold=self.threshold).numpy(),
            nearest_other_cluster=other.int().numpy(),
            similarity=compared.similarity.numpy(),
            unlike=compared.unlike.numpy(),
            probabilities=probs.numpy(),
        )

    def save(self, folder: Path, *, embed: bool = False) -> None:
        """Write the model as a folder, with the weights of the encoder (`embed`) or its name and their hash."""
        if self.encoder.module is None and embed:
            raise UserError(f"the weights of {self.encoder.name} cannot be embedded, because it is not a network")
        about = About(
            clusters=self.head.clusters,
            width=self.encoder.features,
            threshold=self.threshold,
            neighbors=self.bank.neighbors,
            unlike_below=self.bank.unlike_below,
            encoder=self.encoder.name,
            size=self.encoder.size,
            precision=precision_of(self.encoder),
            encoder_hash=self.encoder.fingerprint(),
            embedded=embed,
        )
        if folder.exists() and not (folder / ABOUT).exists() and any(folder.iterdir()):
            raise UserError(f"{folder} exists and is not a model; choose another name")
        with folder_written_atomically(folder) as new:
            (new / HEAD).write_bytes(save(cpu_weights(self.head)))
            (new / BANK).write_bytes(save({"features": self.bank.features, "cluster": self.bank.cluster}))
            if isinstance(self.encoder, TorchEncoder) and self.encoder.card is not None:
                save_network(new / ENCODER, self.encoder.module, self.encoder.card)
            elif embed and self.encoder.module is not None:
                (new / ENCODER).write_bytes(save(cpu_weights(self.encoder.module)))
            about = about.model_copy(update={"hashes": _hashes(new)})
            (new / ABOUT).write_text(about.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, *, device: str = "auto") -> "TrainedModel":
        """Read what `save` wrote, with the encoder on `device`. It must have the weights used in training."""
        about = _read_about(folder)
        try:
            _refuse_changed(about, folder)
            head = Head.from_state_dict(_floats(load_file(folder / HEAD)))
            kept = load_file(folder / BANK)
            bank = Bank(kept["features"], kept["cluster"], about.neighbors, about.unlike_below)
            _refuse_mismatch(about, head, bank)
            encoder = _load_encoder(about, folder, choose_device(device))
        except (OSError, SafetensorError, RuntimeError, KeyError, ValueError) as error:
            raise UserError(
                f"the model in {folder} is damaged ({one_line(error)}); delete it, then run: spice resume RUN"
            ) from error
        return cls(encoder, head, bank, threshold=about.threshold)


def _hashes(folder: Path) -> dict[str, str]:
    files = (folder / name for name in (HEAD, BANK, ENCODER))
    return {file.name: blake2b(file.read_bytes(), digest_size=16).hexdigest() for file in files if file.exists()}


def _refuse_changed(about: About, folder: Path) -> None:
    found = _hashes(folder)
    if about.hashes and found != about.hashes:
        changed = next(name for name in (HEAD, BANK, ENCODER) if found.get(name) != about.hashes.get(name))
        raise ValueError(f"{changed} changed after it was written")


def _refuse_mismatch(about: About, head: Head, bank: Bank) -> None:
    """Refuse parts that do not fit together, and values that are not finite."""
    if (head.width, head.clusters) != (about.width, about.clusters):
        raise ValueError(
            f"its head is for {head.width} features and {head.clusters} clusters, "
            f"not {about.width} and {about.clusters}"
        )
    images = len(bank.cluster) if bank.cluster.ndim == 1 else 0
    if bank.features.shape != (images, about.width) or not 1 <= about.neighbors <= images:
        raise ValueError(f"its bank of {tuple(bank.features.shape)} features does not fit {about.neighbors} neighbors")
    if bank.cluster.is_floating_point() or not bank.features.is_floating_point():
        raise ValueError("its bank has numbers of the wrong type")
    if int(bank.cluster.min()) < 0 or int(bank.cluster.max()) >= about.clusters:
        raise ValueError(f"its bank has groups other than 0 to {about.clusters - 1}")
    _refuse_infinite("bank", [bank.features])
    _refuse_infinite("head", head.state_dict().values())


def _floats(state: dict[str, Tensor]) -> dict[str, Tensor]:
    if not all(value.is_floating_point() for value in state.values()):
        raise ValueError("its head has numbers of the wrong type")
    return state


def _refuse_infinite(part: str, values: Iterable[Tensor]) -> None:
    if not all(bool(value.isfinite().all()) for value in values):
        raise ValueError(f"its {part} has numbers that are not finite")


def _load_encoder(about: About, folder: Path, device: torch.device) -> Encoder:
    if about.encoder == NoEncoder.name:
        return NoEncoder(about.width)
    encoder: Encoder
    if about.encoder == SCRATCH:
        encoder = load_trained(folder / ENCODER, device=device)
    else:
        encoder = with_precision(load_encoder(about.encoder, size=about.size, device=device), about.precision)
        if about.embedded and encoder.module is not None:
            encoder.module.load_state_dict(load_file(folder / ENCODER))
    if encoder.fingerprint() != about.encoder_hash:
        raise UserError(
            f"the model in {folder} was trained with different weights of {about.encoder}; "
            "on the machine where it was trained, export it with --embed"
        )
    if encoder.features != about.width:
        raise ValueError(f"{about.encoder} gives {encoder.features} features, its head takes {about.width}")
    if encoder.module is not None:
        _refuse_infinite("encoder", encoder.module.state_dict().values())
    return encoder


def _read_about(folder: Path) -> About:
    try:
        about = About.model_validate_json((folder / ABOUT).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        if not folder.exists():
            raise UserError(f"there is no folder {folder}") from None
        raise UserError(f"{folder} is neither a run folder nor a model folder (it has no {ABOUT})") from None
    except OSError as error:
        raise UserError(f"cannot read {folder / ABOUT}: {error.strerror}") from error
    except ValidationError as error:
        what = field_of(error)
        raise UserError(f"{folder / ABOUT} is not a model that spice {__version__} can read (at {what!r})") from None
    if about.format != FORMAT:
        raise UserError(
            f"the model in {folder} has format {about.format}, and spice {__version__} reads format {FORMAT}; "
            f"it was made by spice {about.spice}: install that version"
        )
    if _numbers(about.spice) > _numbers(__version__):
        message = f"the model in {folder} was made by spice {about.spice}, newer than this spice {__version__}"
        warn_user(f"{message}; if it behaves differently here, install that version", NewerModelWarning)
    return about


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version.split("+", maxsplit=1)[0])[:3])
