"""The trained model: it assigns new images to the clusters of a run. Saved as safetensors and JSON, without pickle.

Shapes: Q new images, D feature width, K clusters.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import AliasChoices, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from spice.core import reliable
from spice.data.images import Images
from spice.engine.device import choose
from spice.errors import UserError
from spice.models.encoders import SCRATCH, Encoder, TorchEncoder, load_encoder, load_trained
from spice.models.given_features import NoEncoder
from spice.models.heads import Head
from spice.models.weights import save_network
from spice.progress import Progress, silent
from spice.settings import Settings
from spice.stages.bank import Bank, hold_against
from spice.stages.encode import encode_plain, probabilities
from spice.version import __version__

FORMAT = 1
ABOUT, HEAD, BANK, ENCODER = "model.json", "head.safetensors", "bank.safetensors", "encoder.safetensors"


class About(Settings):
    """`model.json`."""

    format: int = FORMAT
    spice: str = __version__
    clusters: int
    width: int
    threshold: float
    neighbors: int = Field(validation_alias=AliasChoices("neighbors", "asked"))  # the latter before version 0.2
    unlike_below: float
    encoder: str
    size: int
    # The same name may stand for other weights on another machine.
    encoder_hash: str
    embedded: bool


class Predictions(NamedTuple):
    """Results for new images: the columns of `labels.csv`, and how similar the images are to the training images."""

    cluster: NDArray[np.int32]  # (Q,)
    probability: NDArray[np.float32]
    margin: NDArray[np.float32]
    reliability: NDArray[np.float32]  # share of the nearest training images in the same cluster
    reliable: NDArray[np.bool_]
    nearest_other_cluster: NDArray[np.int32]
    similarity: NDArray[np.float32]  # to the nearest training image
    unlike: NDArray[np.bool_]  # unlike all training images
    probabilities: NDArray[np.float32]  # (Q, K)

    def rows(self, chosen: NDArray[np.int64]) -> "Predictions":
        """The chosen rows, in this order."""
        return Predictions._make(column[chosen] for column in self)


class TrainedModel:
    """Encoder, head, and a bank of training images."""

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
            neighbors=self.bank.neighbors,
            unlike_below=self.bank.unlike_below,
            encoder=self.encoder.name,
            size=self.encoder.size,
            encoder_hash=self.encoder.fingerprint(),
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
    def load(cls, folder: Path, *, device: str = "auto") -> "TrainedModel":
        """Read what `save` wrote, with the encoder on `device`. It must be the one that the model was trained with."""
        about = _read_about(folder)
        try:
            head = Head.of(load_file(folder / HEAD))
            kept = load_file(folder / BANK)
            encoder = _load_encoder(about, folder, choose(device))
        except (OSError, SafetensorError, RuntimeError, KeyError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"the model in {folder} is damaged ({reason}); run: spice resume") from error
        bank = Bank(kept["features"], kept["cluster"], about.neighbors, about.unlike_below)
        return cls(encoder, head, bank, threshold=about.threshold)


def _load_encoder(about: About, folder: Path, device: torch.device) -> Encoder:
    if about.encoder == NoEncoder.name:
        return NoEncoder(about.width)
    if about.encoder == SCRATCH:
        return load_trained(folder / ENCODER, device=device)
    encoder = load_encoder(about.encoder, size=about.size, device=device)
    if about.embedded and encoder.module is not None:
        encoder.module.load_state_dict(load_file(folder / ENCODER))
    if encoder.fingerprint() != about.encoder_hash:
        raise UserError(
            f"the model in {folder} was trained with other weights of {about.encoder}; "
            "save it again with its encoder embedded, on the machine where it was trained"
        )
    return encoder


def _read_about(folder: Path) -> About:
    try:
        return About.model_validate_json((folder / ABOUT).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"there is no model in {folder} (it has no {ABOUT})") from None
    except ValidationError as error:
        what = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UserError(f"{folder / ABOUT} is not a model that spice {__version__} can read (at {what!r})") from None


def _contiguous(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in module.state_dict().items()}


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """A new folder that replaces `folder` once it is complete."""
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
