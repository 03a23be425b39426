"""The input of a step: settings, images, and the files of earlier steps, each loaded once.

Shapes: N images, D feature width, K clusters, S neighbors.
"""

import copy
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, cast

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from spice.arrays import open_array
from spice.data import Collection, ImageStore
from spice.data.images import Concatenated, Images
from spice.engine.run import Run
from spice.files import written_atomically
from spice.models.encoders import SCRATCH, Encoder, TorchEncoder, load_encoder, load_trained, with_precision
from spice.models.heads import Head
from spice.models.precomputed import PrecomputedFeatures
from spice.models.weights import cpu_weights
from spice.pipeline.background import BackgroundResults
from spice.pipeline.shards import ShardedFeatures
from spice.runs.artifacts import (
    ENCODER,
    FEATURES,
    HEAD,
    NEIGHBORS,
    REFINED_ENCODER,
    REFINED_FEATURES,
    REFINED_HEAD,
    REFINED_NEIGHBORS,
    Artifact,
)
from spice.runs.records import JointResult, read_record
from spice.runs.result import Result
from spice.settings import RunSettings


class Inputs(NamedTuple):
    """The images or vectors to cluster."""

    collection: Collection
    store: ImageStore | None  # None: there are vectors and no images
    vectors: Tensor | None = None  # (N, D)
    extra: ImageStore | None = None  # more images, for stages 1 and 3 only
    pictures: Images | None = None  # shown in the report instead of vectors
    embedded: ShardedFeatures | None = None  # features computed on a Ray cluster
    seconds: float = 0.0  # spent on reading


class Answer(NamedTuple):
    """What the labels come from: stage 2, or stage 3 if its result is used."""

    encoder: Encoder
    head: Head
    features: Tensor  # (N, D), mapped
    neighbors: Tensor  # (N, S)
    refined: bool


class Work:
    """What a step gets: settings, images, and the files of the plan that is being carried out."""

    def __init__(
        self,
        settings: RunSettings,
        inputs: Inputs,
        run: Run,
        result: Result,
        encoder: Encoder | None = None,
    ) -> None:
        self.settings, self.inputs, self.run, self.result = settings, inputs, run, result
        self.folders = {step: result.run / folder for step, folder in result.entry.folders.items()}
        self._encoder = encoder
        self.background = BackgroundResults()

    def __truediv__(self, artifact: Artifact) -> Path:
        """The path of an artifact, which may not exist yet."""
        return self.folders[artifact.step] / artifact.name

    def __len__(self) -> int:
        return len(self.inputs.collection)

    @property
    def images(self) -> ImageStore:
        """The images that are clustered."""
        assert self.inputs.store is not None, "only vectors were given"
        return self.inputs.store

    @property
    def page_images(self) -> Images:
        """The images that the report shows."""
        return self.images if self.inputs.pictures is None else self.inputs.pictures

    @property
    def learned_images(self) -> Images:
        """The images that stages 1 and 3 learn from: those to cluster, then the extra ones."""
        return self.images if self.inputs.extra is None else Concatenated(self.images, self.inputs.extra)

    @property
    def counted_neighbors(self) -> int:
        """N_s: how many nearest images the reliability of an image counts."""
        assert self.settings.reliability.neighbors is not None, "settings are resolved"
        return self.settings.reliability.neighbors

    @cached_property
    def encoder(self) -> Encoder:
        """The frozen encoder of stage 2."""
        if self._encoder is not None:
            return self._encoder
        if self.settings.encoder == SCRATCH:
            return load_trained(self / ENCODER, device=self.run.device)
        assert self.settings.precision != "auto", "settings are resolved"
        encoder = load_encoder(self.settings.encoder, size=self.settings.size, device=self.run.device)
        return with_precision(encoder, self.settings.precision)

    @cached_property
    def vectors(self) -> Tensor | None:
        """Features that the user gave instead of an encoder, (N, D)."""
        if self.inputs.vectors is not None:
            return self.inputs.vectors
        if isinstance(self.encoder, PrecomputedFeatures):
            return self.encoder.vectors_of(self.inputs.collection.paths)
        return None

    @cached_property
    def features(self) -> Tensor:
        """Features of the frozen encoder, (N, D). Memory-mapped: a million images have 5 GB of them."""
        return _mapped(self / FEATURES)

    @cached_property
    def head(self) -> Head:
        """The head that stage 2 selected."""
        return Head.from_state_dict(load_file(self / HEAD))

    @cached_property
    def neighbors(self) -> Tensor:
        """The nearest images by the frozen encoder's features, (N, S)."""
        return _mapped(self / NEIGHBORS)

    @cached_property
    def answer(self) -> Answer:
        """What the labels come from."""
        record = read_record(self.folders["joint"], "joint") if self.settings.joint is not None else None
        if record is None or not cast(JointResult, record.result).used:
            return Answer(self.encoder, self.head, self.features, self.neighbors, refined=False)
        head = Head.from_state_dict(load_file(self / REFINED_HEAD))
        features, neighbors = _mapped(self / REFINED_FEATURES), _mapped(self / REFINED_NEIGHBORS)
        return Answer(self._refined_encoder(), head, features, neighbors, refined=True)

    def _refined_encoder(self) -> TorchEncoder:
        """The encoder after joint training: another network, or this one with other weights."""
        path = self / REFINED_ENCODER
        if self.settings.joint is not None and self.settings.joint.network is not None:
            return load_trained(path, device=self.run.device)
        before = self.encoder
        assert isinstance(before, TorchEncoder)
        module = copy.deepcopy(before.module)
        module.load_state_dict(load_file(path))
        device, card = self.run.device, before.card
        return TorchEncoder(before.name, module, before.normalization, size=before.size, device=device, card=card)


def save_weights(path: Path, module: nn.Module) -> None:
    """Write a module's state as safetensors, atomically."""
    with written_atomically(path) as temporary:
        # Not save_file, whose files only their owner can read.
        temporary.write_bytes(save(cpu_weights(module)))


def _mapped(path: Path) -> Tensor:
    return torch.from_numpy(open_array(path, "c"))
