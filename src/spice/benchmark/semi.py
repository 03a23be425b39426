"""Table V: semi-supervised algorithms, each a loss for the training loop of stage 3, given n true labels.

Weights and thresholds are those with which FixMatch's authors ran the older algorithms, unless a class says otherwise.

Shapes: L labeled and U unlabeled images in a step, K classes, A images to predict.
"""

import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from spice.benchmark.choice import Choice
from spice.benchmark.deep.objective import Pictures
from spice.benchmark.mixing import RotationNetwork
from spice.benchmark.workbench import Workbench
from spice.core import IGNORE, consistency_labels
from spice.data.images import Images, InColor
from spice.engine.device import module_to_device
from spice.models.backbone import Backbone
from spice.models.weights import NetworkCard
from spice.randomness import seeded
from spice.stages.features.train import network_card
from spice.stages.joint.algorithms import Algorithm, Batch, register
from spice.stages.joint.sampling import Labeled
from spice.stages.joint.train import ClusteringNetwork, Learner, train_jointly

Labels = NDArray[np.int64]

# Names in the tables -> names under which they are registered. FixMatch is the algorithm of stage 3 itself.
ALGORITHMS = {
    name: name.lower().replace(" ", "-")
    for name in (
        *("Pi-model", "Pseudo-Labeling", "Mean Teacher", "MixMatch", "UDA", "ReMixMatch", "FixMatch"),
        "supervised",  # the reference of Tables III and IV
    )
}


def fit(name: str, bench: Workbench, labeled: Labeled) -> Labels:
    """Predicted classes (A,) by the algorithm called `name`, given the true labels of some images."""
    chosen, algorithm = bench.choice.semi, ALGORITHMS[name]
    steps = chosen.supervised_steps if name == "supervised" else chosen.training.steps
    settings = chosen.training.model_copy(update={"algorithm": algorithm, "steps": steps})
    card = labeled_card(bench.choice, bench.learn)
    with seeded(bench.run.seed, "semi", "weights"):
        if chosen.start == "features" and bench.encoder.module is not None:
            backbone = copy.deepcopy(bench.encoder.module).requires_grad_()
        else:
            backbone = card.build()
        network = module_to_device(with_linear_head(backbone, bench.clusters, algorithm), bench.run.device)
    learner = Learner.on_images(
        network, bench.clusters, settings.augment, size=card.size, normalization=card.normalization
    )
    run = bench.place(algorithm, chosen.model_dump_json(), bench.encoder.fingerprint())
    trained = train_jointly(learner, bench.all_images, labeled, settings, run).network
    scored = Pictures(InColor(bench.scored, card.channels), settings.augment, card.size, card.normalization)
    return scored.labels(trained, bench.run.device)


def with_linear_head(backbone: Backbone, classes: int, algorithm: str) -> ClusteringNetwork:
    """A backbone and a linear classifier, as in the literature; for ReMixMatch, with another for rotations."""
    kind = RotationNetwork if algorithm == "remixmatch" else ClusteringNetwork
    return kind(backbone, nn.Linear(backbone.features, classes))


def labeled_card(choice: Choice, images: Images) -> NetworkCard:
    """The card of the network to train: the one that the settings name, or else that of stage 1."""
    card, network = network_card(images, choice.features), choice.semi.training.network
    return card if network is None else card.model_copy(update={"network": network, "stem": None, "width": None})


@register("supervised")
class Supervised(Algorithm):
    """Cross-entropy of the given labels alone; with all labels, the last row of Table III."""

    views = ()

    def loss(self, batch: Batch) -> Tensor:
        (logits,) = batch.logits(batch.labeled)
        return F.cross_entropy(logits, batch.labels)


def sigmoid_ramp(batch: Batch) -> float:
    """w(t) = exp(-5 (1 - t)^2), with t rising from 0 to 1 over the first 0.4 of training."""
    return math.exp(-5.0 * (1.0 - min(1.0, batch.step / batch.steps / 0.4)) ** 2)


@register("pi-model")
class PiModel(Algorithm):
    """Two random views of an image should get the same prediction (Laine and Aila, 2017).

    Loss: cross-entropy of the labeled images + w(t) * mean squared error between the probabilities of two views of the
    others. Weight: as in the comparison by MixMatch's authors on CIFAR-10 (`runs/table5.sh`).
    """

    views = ("weak", "weak")
    weight = 20.0

    def loss(self, batch: Batch) -> Tensor:
        """The second view is the target of the first."""
        labeled, first, second = batch.logits(batch.labeled, *batch.unlabeled, detach=2)
        difference = F.mse_loss(first.softmax(dim=1), second.softmax(dim=1))
        return F.cross_entropy(labeled, batch.labels) + sigmoid_ramp(batch) * self.weight * difference


@register("mean-teacher")
class MeanTeacher(Algorithm):
    """The network should predict what its own moving average predicts (Tarvainen and Valpola, 2017).

    Loss: cross-entropy of the labeled images + w(t) * mean squared error to the average's probabilities for another
    view. Weight: from the same comparison as the Pi-model's.
    """

    views = ("weak", "weak")
    weight = 50.0

    def loss(self, batch: Batch) -> Tensor:
        """The average's prediction for the second view is the target of the first."""
        first, second = batch.unlabeled
        labeled, others = batch.logits(batch.labeled, first)
        with torch.no_grad():  # in training mode, so that batch norm uses the batch, as in the network
            target = batch.average(second).softmax(dim=1)  # (U, K)
        difference = F.mse_loss(others.softmax(dim=1), target)
        return F.cross_entropy(labeled, batch.labels) + sigmoid_ramp(batch) * self.weight * difference


@register("pseudo-labeling")
class PseudoLabeling(Algorithm):
    """A confident prediction becomes the label of its image (Lee, 2013, who has no threshold).

    Loss: cross-entropy of the labeled images + w(t) * cross-entropy of the others with their most probable class. Only
    those count whose probability is at least 0.95; the mean is over all U.
    """

    views = ("weak",)
    threshold = 0.95

    def loss(self, batch: Batch) -> Tensor:
        """The label comes from the view that learns it."""
        labeled, others = batch.logits(batch.labeled, *batch.unlabeled)
        confident = consistency_labels(others.detach().softmax(dim=1), threshold=self.threshold)  # (U,)
        batch.confident = (confident != IGNORE).float().mean().item()
        own = F.cross_entropy(others, confident, ignore_index=IGNORE, reduction="sum") / len(others)
        return F.cross_entropy(labeled, batch.labels) + sigmoid_ramp(batch) * own


@register("uda")
class UDA(Algorithm):
    """A strong view should get the sharpened prediction for a weak view, if that is confident (Xie et al., 2020).

    Loss: cross-entropy of the labeled images + cross-entropy of the strong view's prediction with softmax(weak / 0.4).
    Only images count whose weak view has a probability above 0.8; the mean is over all U. Temperature and threshold as
    published for CIFAR-10, without training signal annealing.
    """

    views = ("weak", "strong")
    temperature = 0.4
    threshold = 0.8

    def loss(self, batch: Batch) -> Tensor:
        """The strong view learns the prediction for the weak one."""
        labeled, weak, strong = batch.logits(batch.labeled, *batch.unlabeled, detach=1)
        confident = weak.softmax(dim=1).amax(dim=1) > self.threshold  # (U,)
        batch.confident = confident.float().mean().item()
        target = (weak / self.temperature).softmax(dim=1)  # (U, K)
        each = F.cross_entropy(strong, target, reduction="none")  # (U,)
        return F.cross_entropy(labeled, batch.labels) + (each * confident).mean()
