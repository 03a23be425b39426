"""From the second stage's answer to the third's: the whole network put together, trained, and held against what was.

The paper's III-C from end to end. What `joint` trains is put together here, and what it left is judged by `guard`.

Shapes: N images, D feature width, K clusters, R images with a fixed label.
"""

import copy
import time
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from spice.augment import Strong, Weak
from spice.engine.checkpoints import Checkpoints
from spice.engine.device import placed
from spice.engine.processes import ALONE, Processes
from spice.errors import UserError
from spice.models.backbone import Backbone, initialize_convolutions_
from spice.models.encoders import Encoder, TorchEncoder
from spice.models.heads import Head
from spice.models.parts import cut
from spice.models.weights import NetworkCard
from spice.neighbors import nearest
from spice.progress import Progress, silent
from spice.randomness import seeded
from spice.settings import JointSettings
from spice.stages.joint.checks import Signs, doubts, signs
from spice.stages.joint.draws import Labeled
from spice.stages.joint.train import ClusteringNetwork, Step, View, train_jointly
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

    encoder: TorchEncoder
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
    start = _start(encoder, head, settings, seed, device)
    identity = settings.model_dump(mode="json") | {"seed": seed, "images": len(images), "labeled": len(labeled.image)}
    joint = train_jointly(
        start.network,
        _Colored(images, encoder.channels),
        labeled,
        settings,
        clusters=head.clusters,
        weak=start.weak,
        strong=start.strong,
        seed=seed,
        checkpoints=Checkpoints(folder, identity=identity),
        processes=processes,
        progress=progress,
    )
    # Into the network that was started from: its front, if it has one, was not trained.
    start.network.load_state_dict(joint.network.state_dict())
    name, card = f"{encoder.name}, refined", _card(encoder, settings)
    refined = TorchEncoder(name, start.backbone, encoder.normalization, size=encoder.size, device=device, card=card)
    head = start.network.head.cpu()
    features = encode_plain(refined, images, progress=progress)
    after = Answer(features, probabilities(head, features))
    common, own = (nearest(stage.features, neighbors).index for stage in (answer, after))
    seen_before = signs(answer.features, answer.probs, common, common=common, learned=labeled.cluster)
    seen_after = signs(after.features, after.probs, own, common=common, learned=labeled.cluster)
    return Refined(refined, head, after, seen_before, seen_after, doubts(seen_before, seen_after), joint.history)


def refuse_untrainable(encoder: Encoder) -> None:
    """Refuse an encoder that is only there to be run, in words."""
    if encoder.module is None:
        raise UserError(
            f"{encoder.name} cannot be trained, so there is nothing to refine: choose an encoder that can be"
        )


def estimated_seconds(
    encoder: Encoder, settings: JointSettings, *, clusters: int, images: int, device: torch.device = CPU
) -> float:
    """How long `refine` will take for so many images, from a few steps on made-up ones."""
    if settings.minutes is not None:
        return settings.minutes * 60
    noise = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (64, encoder.channels, encoder.size, encoder.size), generator=noise).byte()
    few = settings.model_copy(update={"steps": 4})
    labeled = Labeled(torch.arange(64), torch.arange(64) % clusters)
    start = _start(encoder, Head(encoder.features, clusters), few, 0, device)
    times: list[float] = []
    train_jointly(
        start.network,
        _InMemory(pixels),
        labeled,
        few,
        clusters=clusters,
        weak=start.weak,
        strong=start.strong,
        seed=0,
        checkpoints=Checkpoints(None),
        progress=lambda *_: times.append(time.monotonic()),
    )
    # The first step is slow: memory is allotted, kernels are chosen.
    training = settings.steps * (times[-1] - times[0]) / (len(times) - 1)
    started = time.monotonic()
    encode_plain(encoder, _InMemory(pixels))
    return training + (time.monotonic() - started) * images / len(pixels)


class _Start(NamedTuple):
    """What is trained, and what it is shown."""

    backbone: Backbone  # whole
    network: ClusteringNetwork  # the part of it that learns, and the head
    weak: View  # as the part that does not learn leaves them
    strong: View


def _start(encoder: Encoder, head: Head, settings: JointSettings, seed: int, device: torch.device) -> _Start:
    """Networks to train: copies of what stages 1 and 2 left (paper), or random weights (authors' code)."""
    refuse_untrainable(encoder)
    assert encoder.module is not None
    backbone, head, other = copy.deepcopy(encoder.module), copy.deepcopy(head), _card(encoder, settings)
    if other is not None:
        backbone = other.build()
        head = Head(backbone.features, head.clusters)
    anew = settings.init == "scratch" or other is not None
    if anew:
        _begin_anew_(backbone, head, seed)
    backbone, head = placed(backbone, device), placed(head, device)
    share = 1.0 if anew else settings.trained  # random layers that stay as they are would teach nothing
    front, tail = cut(backbone, share=share, size=encoder.size, channels=encoder.channels)
    network = ClusteringNetwork(tail.requires_grad_(), head.requires_grad_())
    weak: View = Weak(settings.augment, size=encoder.size, normalization=encoder.normalization)
    strong: View = Strong(settings.augment, size=encoder.size, normalization=encoder.normalization)
    if front is not None:
        frozen = TorchEncoder("front", front, encoder.normalization, size=encoder.size, device=device)
        weak, strong = _Through(weak, frozen), _Through(strong, frozen)
    return _Start(backbone, network, weak, strong)


def _card(encoder: Encoder, settings: JointSettings) -> NetworkCard | None:
    """Of the network that is trained in place of the encoder's, if one is asked for; it is shown the same images."""
    if settings.network is None:
        return None
    return NetworkCard(
        network=settings.network, channels=encoder.channels, size=encoder.size, normalization=encoder.normalization
    )


def _begin_anew_(backbone: Backbone, head: Head, seed: int) -> None:
    with seeded(seed, "joint", "weights"):
        for module in (*backbone.modules(), *head.modules()):
            if isinstance(module, nn.Conv2d | nn.Linear | nn.BatchNorm2d | nn.LayerNorm):
                module.reset_parameters()
        initialize_convolutions_(backbone)


class _Through:
    """A view as the layers that do not learn leave it."""

    def __init__(self, view: View, front: TorchEncoder) -> None:
        self.view, self.front = view, front

    def __call__(
        self, images: Tensor, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
    ) -> Tensor:
        return self.front.encode(self.view(images, generator, rows=rows, of=of))


class _Colored:
    """Gray images in as many channels as the encoder has."""

    def __init__(self, images: Images, channels: int) -> None:
        self.images, self.channels = images, channels

    def __len__(self) -> int:
        return len(self.images)

    def take(self, positions: Tensor) -> Tensor:
        return self.images.take(positions).expand(-1, self.channels, -1, -1)


class _InMemory:
    """Images (N, C, S, S)."""

    def __init__(self, pixels: Tensor) -> None:
        self.pixels = pixels

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, positions: Tensor) -> Tensor:
        return self.pixels[positions]
