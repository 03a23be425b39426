"""SCAN on the same feature model as SPICE: its neighbor objective alone (SCAN*), and with self-labeling (SCAN).

Shapes: A images to predict.
"""

import copy

import torch

from spice.benchmark.methods.self_labeling import self_label
from spice.benchmark.rivals import scan
from spice.benchmark.rivals.rival import Labels
from spice.benchmark.semi import predict
from spice.benchmark.workbench import Workbench
from spice.engine.device import placed
from spice.errors import UserError
from spice.stages.joint.train import ClusteringNetwork, Learner


def objective(bench: Workbench) -> Labels:
    """Labels (A,) by the head on frozen features."""
    head = scan.train(bench.features.numpy(), bench.clusters, seed=bench.run.seed)
    with torch.no_grad():
        labels: Labels = head(bench.scored_features).argmax(dim=1).numpy()
    return labels


def self_labeled(bench: Workbench) -> Labels:
    """Labels (A,) by feature model and head after self-labeling."""
    encoder = bench.encoder
    if encoder.module is None:
        raise UserError(f"{encoder.name} cannot be trained, so SCAN's self-labeling cannot follow")
    head = scan.train(bench.features.numpy(), bench.clusters, seed=bench.run.seed)
    network = placed(ClusteringNetwork(copy.deepcopy(encoder.module).requires_grad_(), head), bench.run.device)
    learner = Learner.on_images(
        network, bench.clusters, bench.choice.joint.augment, size=encoder.size, normalization=encoder.normalization
    )
    settings = bench.choice.self_labeling
    run = bench.place("self-labeling", settings.model_dump_json(), bench.choice.features)
    return predict(self_label(learner, bench.learn, settings, run), bench)
