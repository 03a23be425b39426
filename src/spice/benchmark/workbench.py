"""Where a method of a table works: its images, its seed, and the stages of SPICE, each computed once and kept.

What a stage leaves lies in a folder, so that methods share it, and a killed table goes on inside the stage it was in.

Shapes: N images to learn from, A asked for, D feature width, K clusters.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.benchmark.choice import Choice
from spice.benchmark.collected import Collected, Joined
from spice.data import ImageStore
from spice.engine.device import choose
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.models.encoders import SCRATCH, Encoder, load_encoder, load_trained
from spice.models.heads import Head
from spice.models.weights import save_network
from spice.neighbors import nearest
from spice.progress import Progress, silent
from spice.runs import key_of
from spice.settings import HeadSettings
from spice.stages.features.train import train_features
from spice.stages.heads.train import train_heads
from spice.stages.joint.draws import Labeled
from spice.stages.joint.refine import Answer, Refined, refine
from spice.stages.model import encode_plain, hash_of, probabilities
from spice.stages.reliability import judge, neighbors_to_ask
from spice.stages.views import Views, encode_views

Labels = NDArray[np.int64]


class Workbench:
    """One data set, one seed. Holds no true label."""

    def __init__(
        self, images: Collected, choice: Choice, *, seed: int, folder: Path, progress: Progress = silent
    ) -> None:
        self.learn, self.asked, self.extra = images.learn, images.asked, images.extra
        self.choice, self.clusters, self.seed = choice, choice.clusters, seed
        self.folder, self.progress = folder, progress
        self.device = choose()
        self.shared_seconds = 0.0  # processor seconds spent on what all methods share: features and views
        self.found_seconds = 0.0  # processor seconds that a method did not spend, since another one had
        self.notes: list[str] = []  # what the reader of a cell should know

    @property
    def split(self) -> bool:
        return self.asked is not self.learn

    @property
    def all_images(self) -> ImageStore | Joined:
        """What stages 1 and 3 learn from: STL-10 has further images for them."""
        return self.learn if self.extra is None else Joined(self.learn, self.extra)

    def place(self, stage: str, *depends: object, seed: int | None = None) -> Path:
        """The folder of a stage's result: its name holds all that the result depends on."""
        images = self.learn.collection.identity
        key = key_of(stage, images, self.learn.size, self.choice.encoder, [str(part) for part in depends])
        return self.folder / f"{stage}-{self.seed if seed is None else seed}-{key[:12]}"

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Features and views are not counted as any method's."""
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpiceWarning)  # a table's reader looks at scores
            yield
        self.shared_seconds += time.process_time() - started

    @contextmanager
    def own(self, place: Path) -> Iterator[None]:
        """A method's own work counts as its own, also where it is found in `place`, finished for another method."""
        note, started = place / "seconds", time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpiceWarning)
            yield
        spent = time.process_time() - started
        if note.exists():
            self.found_seconds += float(note.read_text()) - spent
        else:
            place.mkdir(parents=True, exist_ok=True)
            note.write_text(repr(spent))

    @property
    def encoder_seed(self) -> int:
        return 0 if self.choice.one_encoder else self.seed

    @cached_property
    def encoder(self) -> Encoder:
        """The feature model: trained on these images alone (III-A), or the one chosen."""
        if self.choice.encoder != SCRATCH:
            return load_encoder(self.choice.encoder, size=self.choice.pixels)
        settings = self.choice.features
        place = self.place("features", settings.model_dump_json(), seed=self.encoder_seed)
        path = place / "encoder.safetensors"
        if not path.exists():
            with self.shared():
                run = Run(self.encoder_seed, place / "training", self.device, progress=self.progress)
                found = train_features(self.all_images, settings, run)
                save_network(path, found.network, found.card)
        return load_trained(path)

    @cached_property
    def views(self) -> Views:
        """The frozen encoder's features of plain, weak and strong views."""
        depends = self.choice.views.model_dump_json(), hash_of(self.encoder)
        place = self.place("views", *depends, seed=self.encoder_seed)
        with self.shared():
            run = Run(self.encoder_seed, place, self.device, progress=self.progress)
            return encode_views(self.learn, self.encoder, self.choice.views, run)

    @cached_property
    def features(self) -> Tensor:
        """Of the images to learn from, (N, D)."""
        return torch.from_numpy(np.array(self.views.plain, dtype=np.float32))

    @cached_property
    def asked_features(self) -> Tensor:
        """Of the images that are scored, (A, D)."""
        if not self.split:
            return self.features
        with self.shared():
            return encode_plain(self.encoder, self.asked)

    def head(self, settings: HeadSettings) -> Head:
        """The selected head of stage 2 (III-B)."""
        place = self.place("heads", settings.model_dump_json(), hash_of(self.encoder))
        with self.own(place):
            return train_heads(
                self.views, settings, seed=self.seed, folder=place, device=self.device, progress=self.progress
            ).head

    def reliable(self, head: Head) -> Labeled:
        """The images whose neighbors share their cluster, with these clusters (III-C)."""
        labels = probabilities(head, self.features).argmax(dim=1)  # (N,)
        near = nearest(self.features, self._neighbors).index
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpiceWarning)
            trusted = judge(labels, near, self.choice.reliability, clusters=self.clusters).reliable.nonzero().flatten()
        return Labeled(trusted, labels[trusted])

    def refined(self) -> Refined | None:
        """Feature model and head after joint training (III-C); None where no image is reliable.

        A finished run is found again, not repeated.
        """
        head = self.head(self.choice.heads)
        labeled = self.reliable(head)
        if not len(labeled.image):
            self.notes.append("no image is reliable: the second stage's answer stands")
            return None
        settings = self.choice.joint
        place = self.place("joint", settings.model_dump_json(), self.choice.heads, hash_of(self.encoder))
        with self.own(place):
            found = refine(
                self.all_images,
                self.encoder,
                head,
                Answer(self.features, probabilities(head, self.features)),
                labeled,
                settings=settings,
                neighbors=self._neighbors,
                seed=self.seed,
                folder=place,
                device=self.device,
                progress=self.progress,
            )
        if found.doubts:
            self.notes.append(f"the guard would have kept the second stage's answer: {'; '.join(found.doubts)}")
        return found

    @property
    def _neighbors(self) -> int:
        return neighbors_to_ask(len(self.learn), self.clusters, self.choice.reliability)
