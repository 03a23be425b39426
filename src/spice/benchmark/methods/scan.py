"""SCAN on the same feature model as SPICE: its neighbor objective alone (SCAN*), and with self-labeling (SCAN).

Shapes: A images asked for.
"""

import copy

import torch
from torch import Tensor, nn

from spice.benchmark.methods.self_labeling import self_label
from spice.benchmark.rivals import scan
from spice.benchmark.rivals.neighbor_heads import NeighborHead
from spice.benchmark.rivals.rival import Labels
from spice.benchmark.semi.methods import answers
from spice.benchmark.workbench import Workbench
from spice.engine.device import placed
from spice.errors import UserError
from spice.models.backbone import Backbone


class ScanNetwork(nn.Module):
    """Feature model and head."""

    def __init__(self, backbone: Backbone, head: NeighborHead) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, K)."""
        logits: Tensor = self.head(self.backbone(images))
        return logits


def objective(bench: Workbench) -> Labels:
    """Labels (A,) by the head on frozen features."""
    head = scan.train(bench.features.numpy(), bench.clusters, seed=bench.seed)
    with torch.no_grad():
        labels: Labels = head(bench.asked_features).argmax(dim=1).numpy()
    return labels


def self_labeled(bench: Workbench) -> Labels:
    """Labels (A,) by feature model and head after self-labeling."""
    encoder = bench.encoder
    if encoder.module is None:
        raise UserError(f"{encoder.name} cannot be trained, so SCAN's self-labeling cannot follow")
    head = scan.train(bench.features.numpy(), bench.clusters, seed=bench.seed)
    network = placed(ScanNetwork(copy.deepcopy(encoder.module).requires_grad_(), head), bench.device)
    trained = self_label(
        network,
        bench.learn,
        bench.choice.self_labeling,
        size=encoder.size,
        normalization=encoder.normalization,
        augment=bench.choice.joint.augment,
        seed=bench.seed,
        folder=bench.place("self-labeling", bench.choice.self_labeling.model_dump_json(), bench.choice.features),
        progress=bench.progress,
    )
    return answers(trained, bench)
