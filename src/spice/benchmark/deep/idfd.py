"""IDFD: instance discrimination and feature decorrelation, followed by k-means (Tao et al., 2021).

Shapes: N images, B of them in a batch, P feature width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.benchmark.deep.objective import Objective, Schedule, Seen, Start
from spice.randomness import generator

WIDTH = 128  # P


class IDFD(Objective):
    """Instance discrimination against a memory bank of all images' features, and feature decorrelation.

    Loss: -mean_i ln softmax(v f_i / 1)_i - mean_l ln softmax(F f_l / 2)_l, where v are the features in the bank, f_i
    those of an image and f_l a column of the batch's features, all of unit length. An image's features in the bank move
    halfway to the new ones. Constants: `main.py` of the authors' repository
    (TTN-YKK/Clustering_friendly_representation_learning), for CIFAR-10. There, k-means clusters the bank; here, it
    clusters the features of plain images.
    """

    views = ("contrastive",)
    published = Schedule(
        epochs=2000,
        batch=128,
        learning_rate=0.03,
        weight_decay=5e-4,
        momentum=0.9,
        drops=(0.3, 0.475, 0.65, 0.825),  # after epochs 600, 950, 1,300 and 1,650
    )
    image_temperature, feature_temperature = 1.0, 2.0
    memory: Tensor  # (N, P)

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.backbone, self.layer = start.backbone, nn.Linear(start.backbone.features, WIDTH)
        drawn = torch.randn(start.images, WIDTH, generator=generator(start.seed, "idfd"))
        self.register_buffer("memory", F.normalize(drawn, dim=1))
        self.latest = torch.empty(0, WIDTH)  # features of the step's images, (B, P)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> features (B, P) of unit length."""
        return F.normalize(self.layer(self.backbone(images)).float(), dim=1)

    def loss(self, seen: Seen) -> Tensor:
        """The loss of the images plus that of the features."""
        features, images = self(seen.views[0]), seen.images.to(self.memory.device)  # (B, P)
        self.latest = features.detach()
        discrimination = F.cross_entropy(features @ self.memory.T / self.image_temperature, images)
        return discrimination + decorrelation(features, temperature=self.feature_temperature)

    def update_(self, seen: Seen) -> None:
        images = seen.images.to(self.memory.device)
        self.memory[images] = F.normalize(self.memory[images] + self.latest, dim=1)


def decorrelation(features: Tensor, *, temperature: float) -> Tensor:
    """-mean_l ln softmax(cosines of column l with all columns / temperature)_l: (B, P) -> ()."""
    columns = F.normalize(features, dim=0)
    cosines = columns.T @ columns / temperature  # (P, P)
    return F.cross_entropy(cosines, torch.arange(len(cosines), device=cosines.device))
