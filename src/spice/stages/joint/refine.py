"""Stage 3 as a whole: build the network, train it, and check the result (paper III-C).

Shapes: N images, D feature width, K clusters, S neighbors, R images with a fixed label.
"""

import copy
import time
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from spice.data.images import Images, InColor, InMemory
from spice.engine.device import module_to_device
from spice.engine.processes import CPU
from spice.engine.run import Run
from spice.errors import UserError
from spice.models.backbone import Backbone, initialize_convolutions_
from spice.models.encoders import Encoder, TorchEncoder
from spice.models.heads import Head
from spice.models.parts import split_network
from spice.models.weights import NetworkCard
from spice.neighbors import Neighbors, nearest
from spice.randomness import seeded
from spice.settings import JointSettings
from spice.stages.encode import encode_plain, probabilities
from spice.stages.joint.checks import ClusteringStats, clustering_stats, failed_checks
from spice.stages.joint.sampling import Labeled
from spice.stages.joint.train import ClusteringNetwork, Learner, Step, View, train_jointly


class Stage2(NamedTuple):
    """The result of stage 2, which stage 3 starts from."""

    images: Images  # the N images, then any images that are only used for training, not clustered
    encoder: Encoder
    head: Head
    features: Tensor  # (N, D) of the plain images
    probs: Tensor  # (N, K)
    neighbors: Tensor  # (N, S) the nearest images in `features`
    checked_neighbors: int | None = None  # number of neighbors that the checks use; None: all
    # Positions of the distinct images (see `encode_plain`). None: all images differ.
    distinct: NDArray[np.int64] | None = None


class Refined(NamedTuple):
    """The trained network, its predictions, and whether they passed the checks."""

    encoder: TorchEncoder
    head: Head
    features: Tensor  # (N, D)
    probs: Tensor  # (N, K)
    neighbors: Neighbors  # (N, S) in the new features
    before: ClusteringStats
    after: ClusteringStats
    failed_checks: list[str]  # empty: the result replaces that of stage 2
    history: list[Step]


def refine(stage2: Stage2, labeled: Labeled, settings: JointSettings, run: Run) -> Refined:
    """Train copies of encoder and head jointly on `labeled`, and check the result.

    If `run` has a folder, a stopped run resumes bit for bit.
    """
    images, encoder, count = stage2.images, stage2.encoder, len(stage2.features)
    if len(images) < count:
        raise ValueError(f"{count} features need as many images, got {len(images)}")
    networks = networks_to_train(encoder, stage2.head, settings, run)
    joint = train_jointly(networks.learner, InColor(images, encoder.channels), labeled, settings, run)
    # The average goes into the original network, whose first layers may be frozen and not part of the learner.
    networks.learner.network.load_state_dict(joint.network.state_dict())
    refined = TorchEncoder(
        f"{encoder.name}, refined",
        networks.backbone,
        encoder.normalization,
        size=encoder.size,
        device=run.device,
        card=_card(encoder, settings),
    )
    head = networks.head.cpu()
    features = encode_plain(refined, images, count=count, distinct=stage2.distinct, progress=run.progress)
    probs = probabilities(head, features)
    neighbors = nearest(features, stage2.neighbors.shape[1])
    prior, own = (index[:, : stage2.checked_neighbors] for index in (stage2.neighbors, neighbors.index))
    before = clustering_stats(stage2.features, stage2.probs, prior, prior_neighbors=prior, learned=labeled.cluster)
    after = clustering_stats(features, probs, own, prior_neighbors=prior, learned=labeled.cluster)
    failed = failed_checks(before, after)
    return Refined(refined, head, features, probs, neighbors, before, after, failed, joint.history)


def refuse_untrainable(encoder: Encoder) -> None:
    """Refuse an encoder that cannot be trained."""
    if encoder.module is None:
        raise UserError(f"{encoder.name} cannot be trained, so it cannot be refined; choose another encoder")


def estimated_seconds(
    encoder: Encoder, settings: JointSettings, *, clusters: int, images: int, device: torch.device = CPU
) -> float:
    """How long `refine` will take for this many images, estimated from a few steps on random images."""
    if settings.minutes is not None:
        return settings.minutes * 60
    random = torch.Generator().manual_seed(0)
    shape = (64, encoder.channels, encoder.size, encoder.size)
    pixels = InMemory(torch.randint(0, 256, shape, generator=random).byte())
    few = settings.model_copy(update={"steps": 4})
    labeled = Labeled(torch.arange(64), torch.arange(64) % clusters)
    times: list[float] = []
    run = Run(device=device, progress=lambda *_: times.append(time.monotonic()))
    networks = networks_to_train(encoder, Head(encoder.features, clusters), few, run)
    train_jointly(networks.learner, pixels, labeled, few, run)
    # The first step is left out. It is slow, because it allocates memory and selects kernels.
    training = settings.steps * (times[-1] - times[0]) / (len(times) - 1)
    started = time.monotonic()
    encode_plain(encoder, pixels)
    return training + (time.monotonic() - started) * images / len(pixels)


class NetworksToTrain(NamedTuple):
    """What stage 3 trains."""

    backbone: Backbone  # all layers
    head: Head
    learner: Learner  # the head and the trained layers of the backbone, with views encoded by the frozen layers


def networks_to_train(encoder: Encoder, head: Head, settings: JointSettings, run: Run) -> NetworksToTrain:
    """Networks to train: copies of those from stages 1 and 2 (paper), or random weights (authors' code)."""
    refuse_untrainable(encoder)
    backbone, head, card = copy.deepcopy(encoder.module), copy.deepcopy(head), _card(encoder, settings)
    assert backbone is not None
    if card is not None:
        backbone = card.build()
        head = Head(backbone.features, head.clusters)
    from_scratch = settings.init == "scratch" or card is not None
    if from_scratch:
        _reset_weights_(backbone, head, run.seed)
    backbone, head = module_to_device(backbone, run.device), module_to_device(head, run.device)
    share = 1.0 if from_scratch else settings.trained  # frozen random layers would teach nothing
    front, tail = split_network(backbone, share=share, size=encoder.size, channels=encoder.channels)
    network = ClusteringNetwork(tail.requires_grad_(), head.requires_grad_())
    learner = Learner.on_images(
        network, head.clusters, settings.augment, size=encoder.size, normalization=encoder.normalization
    )
    if front is not None:
        frozen = TorchEncoder("front", front, encoder.normalization, size=encoder.size, device=run.device)
        learner = learner._replace(
            weak=_encoded_view(learner.weak, frozen), strong=_encoded_view(learner.strong, frozen)
        )
    return NetworksToTrain(backbone, head, learner)


def _card(encoder: Encoder, settings: JointSettings) -> NetworkCard | None:
    """The card of the network that replaces the encoder's, if the settings name one. Its input is the same."""
    if settings.network is None:
        return None
    return NetworkCard(
        network=settings.network, channels=encoder.channels, size=encoder.size, normalization=encoder.normalization
    )


def _reset_weights_(backbone: Backbone, head: Head, seed: int) -> None:
    with seeded(seed, "joint", "weights"):
        for module in (*backbone.modules(), *head.modules()):
            if isinstance(module, nn.Conv2d | nn.Linear | nn.BatchNorm2d | nn.LayerNorm):
                module.reset_parameters()
        initialize_convolutions_(backbone)


def _encoded_view(view: View, front: TorchEncoder) -> View:
    """The view, encoded by the frozen layers."""

    def encoded(
        images: Tensor, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
    ) -> Tensor:
        return front.encode(view(images, generator, rows=rows, of=of))

    return encoded
