"""How a semi-supervised algorithm becomes a row of a table: the data set's own network, n labels, predictions.

Shapes: A images to predict, K classes.
"""

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from spice.augment import Plain
from spice.benchmark.semi import ALGORITHMS
from spice.benchmark.workbench import Workbench
from spice.data.images import InColor
from spice.engine.device import placed
from spice.randomness import seeded
from spice.settings import AugmentSettings
from spice.stages.features.train import card_of
from spice.stages.joint.draws import Labeled
from spice.stages.joint.train import ClusteringNetwork, Learner, train_jointly

Labels = NDArray[np.int64]
CHUNK = 256


def fit(name: str, bench: Workbench, labeled: Labeled) -> Labels:
    """Labels (A,) by the algorithm called `name`, given the true labels of some images: classes, not clusters."""
    chosen, algorithm = bench.choice.semi, ALGORITHMS[name]
    steps = chosen.supervised_steps if name == "supervised" else chosen.training.steps
    settings = chosen.training.model_copy(update={"algorithm": algorithm, "steps": steps})
    card = card_of(bench.learn, bench.choice.features)
    learner = Learner.on_images(
        start(bench), bench.clusters, settings.augment, size=card.size, normalization=card.normalization
    )
    run = bench.place(algorithm, chosen.model_dump_json(), bench.encoder.fingerprint())
    return predict(train_jointly(learner, bench.all_images, labeled, settings, run).network, bench)


def start(bench: Workbench) -> ClusteringNetwork:
    """The network before training: a backbone and one linear layer, as in the semi-supervised literature."""
    with seeded(bench.run.seed, "semi", "weights"):
        if bench.choice.semi.start == "features" and bench.encoder.module is not None:
            backbone = copy.deepcopy(bench.encoder.module).requires_grad_()
        else:
            backbone = card_of(bench.learn, bench.choice.features).build()
        return placed(ClusteringNetwork(backbone, nn.Linear(backbone.features, bench.clusters)), bench.run.device)


@torch.no_grad()
def predict(network: nn.Module, bench: Workbench) -> Labels:
    """The class of every image that is scored, (A,)."""
    card = card_of(bench.learn, bench.choice.features)
    plain, images = Plain(AugmentSettings(), card.size, card.normalization), InColor(bench.scored, card.channels)
    parts = [
        network(plain(images.take(positions).to(bench.run.device))).argmax(dim=1).cpu()
        for positions in torch.arange(len(images)).split(CHUNK)  # type: ignore[no-untyped-call]
    ]
    labels: Labels = torch.cat(parts).numpy()
    return labels
