"""From the second stage's answer to the third's: the whole network put together, trained, and held against what was.

The paper's III-C from end to end. What `joint` trains is put together here, and what it left is judged by `guard`.

Shapes: N images, D feature width, K clusters, R images with a fixed label.
"""

import copy
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from spice.augment import Strong, Weak
from spice.engine.checkpoints import Checkpoints
from spice.engine.device import placed
from spice.engine.processes import ALONE, Processes
from spice.engine.seeds import seeded
from spice.errors import UserError
from spice.models.backbone import Backbone, initialize_convolutions_
from spice.models.encoders import Encoder, TorchEncoder
from spice.models.heads import Head
from spice.neighbors import nearest
from spice.progress import Progress, silent
from spice.settings import JointSettings
from spice.stages.guard import Signs, doubts, signs
from spice.stages.joint import ClusteringNetwork, Labeled, Step, train_jointly
from spice.stages.model import encode_plain, probabilities

CPU = torch.device("cpu")


class Images(Protocol):
    """What the stage needs of an image store."""

    def __len__(self) -> int: ...
    def take(self, positions: Tensor) -> Tensor: ...


class Answer(NamedTuple):
    """What one stage says of every image."""

    features: Tensor  # (N, D)
    probs: Tensor  # (N, K)


class Refined(NamedTuple):
    """The third stage's network and answer, and whether it is to be believed."""

    encoder: Encoder
    head: Head
    answer: Answer
    before: Signs
    after: Signs
    doubts: list[str]  # empty: the answer takes the place of the second stage's
    history: list[Step]


def refine(
    images: Images,
    encoder: Encoder,
    head: Head,
    answer: Answer,
    labeled: Labeled,
    *,
    settings: JointSettings,
    neighbors: int,
    seed: int,
    folder: Path | None = None,
    device: torch.device = CPU,
    processes: Processes = ALONE,
    progress: Progress = silent,
) -> Refined:
    """Train encoder and head together on `labeled`, the reliable images of `answer`, and judge the result.

    The encoder given is left as it is. With a `folder`, a run that was stopped goes on bit for bit.
    """
    if encoder.module is None:
        raise UserError(
            f"{encoder.name} cannot be trained, so there is nothing to refine: choose an encoder that can be"
        )
    backbone, head = _start(encoder.module, head, settings, seed)
    network = placed(ClusteringNetwork(backbone, head), device)
    identity = settings.model_dump(mode="json") | {"seed": seed, "images": len(images), "labeled": len(labeled.image)}
    joint = train_jointly(
        network,
        _Colored(images, encoder.channels),
        labeled,
        settings,
        clusters=head.clusters,
        weak=Weak(settings.augment, size=encoder.size, normalization=encoder.normalization),
        strong=Strong(settings.augment, size=encoder.size, normalization=encoder.normalization),
        seed=seed,
        checkpoints=Checkpoints(folder, identity=identity),
        processes=processes,
        progress=progress,
    )
    assert isinstance(joint.network, ClusteringNetwork)
    trained, head = joint.network.backbone, joint.network.head.cpu()
    refined = TorchEncoder(f"{encoder.name}, refined", trained, encoder.normalization, size=encoder.size, device=device)
    features = encode_plain(refined, images, progress=progress)
    after = Answer(features, probabilities(head, features))
    seen_before, seen_after = _seen(answer, neighbors), _seen(after, neighbors)
    return Refined(refined, head, after, seen_before, seen_after, doubts(seen_before, seen_after), joint.history)


def _start(backbone: Backbone, head: Head, settings: JointSettings, seed: int) -> tuple[Backbone, Head]:
    """Copies to train: as stages 1 and 2 left them (paper), or with random weights (authors' code)."""
    backbone, head = copy.deepcopy(backbone), copy.deepcopy(head)
    if settings.init == "scratch":
        with seeded(seed, "joint", "weights"):
            for module in (*backbone.modules(), *head.modules()):
                if isinstance(module, nn.Conv2d | nn.Linear | nn.BatchNorm2d | nn.LayerNorm):
                    module.reset_parameters()
            initialize_convolutions_(backbone)
    return backbone.requires_grad_(), head.requires_grad_()


class _Colored:
    """Gray images in as many channels as the encoder has."""

    def __init__(self, images: Images, channels: int) -> None:
        self.images, self.channels = images, channels

    def __len__(self) -> int:
        return len(self.images)

    def take(self, positions: Tensor) -> Tensor:
        return self.images.take(positions).expand(-1, self.channels, -1, -1)


def _seen(answer: Answer, neighbors: int) -> Signs:
    """The signs of an answer, each held against the neighbors that its own features make."""
    return signs(answer.features, answer.probs, nearest(answer.features, neighbors).index)
