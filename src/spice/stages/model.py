"""The trained model: what a run knows, for tomorrow's images. Saved as safetensors and json; no pickle, no network.

Shapes: Q new images, D feature width, K clusters.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from spice.augment import Plain
from spice.core import reliable
from spice.engine.parallel import parallel_map
from spice.errors import UserError
from spice.models.encoders import SCRATCH, Encoder, TorchEncoder, load_encoder, load_trained
from spice.models.heads import Head
from spice.models.weights import save_network
from spice.progress import Progress, silent
from spice.settings import AugmentSettings, Normalization
from spice.stages.bank import Bank, hold_against
from spice.version import __version__

FORMAT = 1
ABOUT, HEAD, BANK, ENCODER = "model.json", "head.safetensors", "bank.safetensors", "encoder.safetensors"
# The same batches whoever asks: how a product is split over a batch may change its last bit.
BATCH = 64


class About(BaseModel):
    """`model.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    spice: str = __version__
    clusters: int
    width: int
    threshold: float
    asked: int
    unlike_below: float
    encoder: str
    size: int
    # Of the encoder's weights: the same name may stand for other weights on another machine.
    encoder_hash: str
    embedded: bool


class Predictions(NamedTuple):
    """The answer for new images, in the words of `labels.csv`, and how much they resemble what was seen."""

    cluster: NDArray[np.int32]  # (Q,)
    probability: NDArray[np.float32]
    margin: NDArray[np.float32]
    reliability: NDArray[np.float32]  # share of the nearest training images in the same cluster
    reliable: NDArray[np.bool_]
    nearest_other_cluster: NDArray[np.int32]
    similarity: NDArray[np.float32]  # to the nearest training image
    unlike: NDArray[np.bool_]  # unlike anything seen in training
    probabilities: NDArray[np.float32]  # (Q, K)

    def rows(self, chosen: NDArray[np.int64]) -> "Predictions":
        """Some rows, in the order given."""
        return Predictions(
            self.cluster[chosen],
            self.probability[chosen],
            self.margin[chosen],
            self.reliability[chosen],
            self.reliable[chosen],
            self.nearest_other_cluster[chosen],
            self.similarity[chosen],
            self.unlike[chosen],
            self.probabilities[chosen],
        )


class Images(Protocol):
    """What is predicted: decoded images by position, such as an `ImageStore`."""

    def __len__(self) -> int: ...

    def take(self, positions: Tensor) -> Tensor: ...


class NoEncoder:
    """Stands where there were features and no images."""

    name = "none"
    size = 1
    channels = 1
    normalization = Normalization(mean=(0.0,), std=(1.0,))
    module = None

    def __init__(self, features: int) -> None:
        self.features = features

    def encode(self, images: Tensor) -> Tensor:  # noqa: ARG002
        raise UserError("this model was made from features: give it features (N, D), not images")

    feature_map = encode

    def fingerprint(self) -> str:
        return ""


class TrainedModel:
    """Encoder, head and remembered images."""

    def __init__(self, encoder: Encoder, head: Head, bank: Bank, *, threshold: float) -> None:
        self.encoder = encoder
        self.head = head.eval()
        self.bank = bank
        self.threshold = threshold

    def predict(self, images: Images, *, progress: Progress = silent) -> Predictions:
        """The clusters of new images."""
        return self.predict_features(encode_plain(self.encoder, images, progress=progress))

    def predict_features(self, features: Tensor) -> Predictions:
        """The clusters of images with features (Q, D)."""
        probs = probabilities(self.head, features)
        best = probs.topk(2, dim=1)
        cluster, other = best.indices.unbind(dim=1)
        judged = hold_against(self.bank, features, cluster)
        return Predictions(
            cluster=cluster.int().numpy(),
            probability=best.values[:, 0].numpy(),
            margin=(best.values[:, 0] - best.values[:, 1]).numpy(),
            reliability=judged.reliability.numpy(),
            reliable=reliable(judged.reliability, threshold=self.threshold).numpy(),
            nearest_other_cluster=other.int().numpy(),
            similarity=judged.similarity.numpy(),
            unlike=judged.unlike.numpy(),
            probabilities=probs.numpy(),
        )

    def save(self, folder: Path, *, embed: bool = False) -> None:
        """Write the model as a folder; with `embed` the encoder's weights too, otherwise its name and their hash."""
        if self.encoder.module is None and embed:
            raise UserError(f"the weights of {self.encoder.name} cannot be embedded: it is a program, not a network")
        about = About(
            clusters=self.head.clusters,
            width=self.encoder.features,
            threshold=self.threshold,
            asked=self.bank.neighbors,
            unlike_below=self.bank.unlike_below,
            encoder=self.encoder.name,
            size=self.encoder.size,
            encoder_hash=hash_of(self.encoder),
            embedded=embed,
        )
        with _replaced(folder) as new:
            (new / ABOUT).write_text(about.model_dump_json(indent=2) + "\n", encoding="utf-8")
            (new / HEAD).write_bytes(save(_contiguous(self.head)))
            (new / BANK).write_bytes(save({"features": self.bank.features, "cluster": self.bank.cluster}))
            if isinstance(self.encoder, TorchEncoder) and self.encoder.card is not None:
                save_network(new / ENCODER, self.encoder.module, self.encoder.card)
            elif embed and self.encoder.module is not None:
                (new / ENCODER).write_bytes(save(_contiguous(self.encoder.module)))

    @classmethod
    def load(cls, folder: Path) -> "TrainedModel":
        """Read what `save` wrote; the encoder must be the one that the model was trained with."""
        about = _read_about(folder)
        try:
            head = Head.of(load_file(folder / HEAD))
            kept = load_file(folder / BANK)
            encoder = _load_encoder(about, folder)
        except (OSError, SafetensorError, RuntimeError, KeyError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"the model in {folder} is damaged ({reason}); make it anew with: spice resume") from error
        bank = Bank(kept["features"], kept["cluster"], about.asked, about.unlike_below)
        return cls(encoder, head, bank, threshold=about.threshold)


def encode_plain(encoder: Encoder, images: Images, *, progress: Progress = silent) -> Tensor:
    """Features of images as they are: (Q, D)."""
    plain = Plain(AugmentSettings(), size=encoder.size, normalization=encoder.normalization)
    features = torch.empty(len(images), encoder.features)

    def encoded(start: int) -> Tensor:
        pixels = images.take(torch.arange(start, min(start + BATCH, len(images))))  # (B, C, S, S)
        return encoder.encode(plain(pixels.expand(-1, encoder.channels, -1, -1))).cpu()  # gray: one channel for three

    starts = range(0, len(images), BATCH)
    for start, batch in zip(starts, parallel_map(encoded, starts), strict=True):
        features[start : start + len(batch)] = batch
        progress("encoding images", start + len(batch), len(images))
    return features


@torch.no_grad()
def probabilities(head: Head, features: Tensor) -> Tensor:
    """(Q, D) -> (Q, K)."""
    parts = [head(features[start : start + BATCH]).softmax(dim=1) for start in range(0, len(features), BATCH)]
    return torch.cat(parts)


def hash_of(encoder: Encoder) -> str:
    """A hash of what the features depend on: the weights, the file, or the features themselves."""
    return encoder.fingerprint()


def _load_encoder(about: About, folder: Path) -> Encoder:
    if about.encoder == NoEncoder.name:
        return NoEncoder(about.width)
    if about.encoder == SCRATCH:
        return load_trained(folder / ENCODER)
    encoder = load_encoder(about.encoder, size=about.size)
    if about.embedded and encoder.module is not None:
        encoder.module.load_state_dict(load_file(folder / ENCODER))
    if hash_of(encoder) != about.encoder_hash:
        raise UserError(
            f"the weights of {about.encoder} here are not those that the model in {folder} was trained with; "
            "save the model with its encoder embedded where it was trained"
        )
    return encoder


def _read_about(folder: Path) -> About:
    path = folder / ABOUT
    try:
        return About.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"there is no model in {folder} (it has no {ABOUT})") from None
    except ValidationError as error:
        what = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UserError(f"{path} is not of a model that spice {__version__} can read (at {what!r})") from None


def _contiguous(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in module.state_dict().items()}


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """A new folder that takes the place of `folder` when it is complete."""
    if folder.exists() and not (folder / ABOUT).exists() and any(folder.iterdir()):
        raise UserError(f"{folder} exists and is not a model; give another name")
    folder.parent.mkdir(parents=True, exist_ok=True)
    new, old = folder.with_name(f".{folder.name}.partial"), folder.with_name(f".{folder.name}.old.partial")
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    new.mkdir()
    try:
        yield new
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
