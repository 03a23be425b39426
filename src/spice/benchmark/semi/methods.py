"""How a semi-supervised algorithm becomes a row of a table: the data set's own network, n labels, answers.

Shapes: A images asked for, K classes.
"""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from spice.augment import Plain
from spice.benchmark.semi import ALGORITHMS
from spice.benchmark.semi.loop import recipes, train
from spice.benchmark.workbench import Workbench
from spice.engine.checkpoints import Checkpoints
from spice.engine.device import placed
from spice.models.backbone import Backbone
from spice.randomness import seeded
from spice.settings import AugmentSettings, JointSettings
from spice.stages.features.train import card_of
from spice.stages.joint.draws import Labeled
from spice.stages.joint.train import View, train_jointly
from spice.stages.model import hash_of

Labels = NDArray[np.int64]
CHUNK = 256


class Classifier(nn.Module):
    """A backbone and one linear layer, as in the semi-supervised literature."""

    def __init__(self, backbone: Backbone, clusters: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.out = nn.Linear(backbone.features, clusters)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, K)."""
        logits: Tensor = self.out(self.backbone(images))
        return logits


def fit(name: str, bench: Workbench, labeled: Labeled) -> Labels:
    """Labels (A,) by the algorithm called `name`, given the true labels of some images: classes, not clusters."""
    chosen = bench.choice.semi
    settings = chosen.training
    if name == "supervised":
        settings = settings.model_copy(update={"steps": chosen.supervised_steps})
    network = start(bench)
    card = card_of(bench.learn, bench.choice.features)
    view = recipes(settings, size=card.size, normalization=card.normalization)
    place = bench.place(name.lower().replace(" ", "-"), chosen.model_dump_json(), hash_of(bench.encoder))
    if name == "FixMatch":
        return answers(_fixmatch(network, bench, labeled, settings=settings, view=view, place=place), bench)
    trained = train(
        network,
        bench.all_images,
        labeled,
        ALGORITHMS[name],
        settings,
        clusters=bench.clusters,
        view=view,
        seed=bench.seed,
        folder=place,
        progress=bench.progress,
    )
    return answers(trained, bench)


def start(bench: Workbench) -> nn.Module:
    """The network before it has seen a label."""
    chosen = bench.choice.semi
    with seeded(bench.seed, "semi", "weights"):
        if chosen.start == "features" and bench.encoder.module is not None:
            backbone = copy.deepcopy(bench.encoder.module).requires_grad_()
        else:
            backbone = card_of(bench.learn, bench.choice.features).build()
        return placed(Classifier(backbone, bench.clusters), bench.device)


@torch.no_grad()
def answers(network: nn.Module, bench: Workbench) -> Labels:
    """The class of every image asked for, (A,)."""
    card = card_of(bench.learn, bench.choice.features)
    plain = Plain(AugmentSettings(), card.size, card.normalization)
    found = []
    for first in range(0, len(bench.asked), CHUNK):
        pixels = bench.asked.take(torch.arange(first, min(first + CHUNK, len(bench.asked)))).to(bench.device)
        found.append(network(plain(pixels.expand(-1, card.channels, -1, -1))).argmax(dim=1).cpu())
    labels: Labels = torch.cat(found).numpy()
    return labels


def _fixmatch(
    network: nn.Module,
    bench: Workbench,
    labeled: Labeled,
    *,
    settings: JointSettings,
    view: Callable[[str], View],
    place: Path,
) -> nn.Module:
    """The third stage itself, with true labels in the place of reliable ones."""
    identity = settings.model_dump(mode="json") | {"labels": labeled.cluster.tolist()}
    return train_jointly(
        network,
        bench.all_images,
        labeled,
        settings,
        clusters=bench.clusters,
        weak=view("weak"),
        strong=view("strong"),
        seed=bench.seed,
        checkpoints=Checkpoints(place, identity=identity),
        progress=bench.progress,
    ).network
