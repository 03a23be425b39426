"""RUC, which improves a given clustering: two networks learn its clean labels with MixMatch (Park et al., 2021).

Shapes: N images, B clean and B unclean images in a step, K clusters, D feature width, S neighbors.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.benchmark.deep.objective import Epoch, Objective, Pictures, Schedule, Seen, Start
from spice.benchmark.mixing import mixed, sharpened
from spice.models.backbone import Backbone, eval_mode
from spice.neighbors import nearest, unit_rows
from spice.stages.joint.train import ClusteringNetwork

NEIGHBORS = 100
TEMPERATURE = 0.5
UNLABELED_WEIGHT = 25.0  # final value; rises from a tenth of it
SMOOTHING = 0.5
ALPHA = 4.0  # mixup draws from Beta(4, 4)


class RUC(Objective):
    """Retrain a clustering network on those of its labels that are clean, with all other images as unlabeled.

    A label is clean if it is confident and most neighbors have it ("hybrid"). Two networks start from the given one
    with new last layers. The loss of each is MixMatch's, with labels refined by the other network and guesses by both,
    plus cross-entropy of strong views with the smoothed labels. Before each epoch but the first, an image with a
    confident prediction by either network gets this label and becomes clean. The prediction is the mean of both.

    Constants: `main_ruc_cifar10.py` of the authors' repository (deu30303/RUC), with the rising threshold of
    `main_ruc_stl10.py`, which has batches of 100 and a weight of 50. There, the networks learn in alternate epochs from
    two weak views of a clean image, and labels are refined by the confidence of an epoch ago. Here, both learn in each
    step from one weak view, with the current confidence.
    """

    views = ("weak", "strong", "weak", "weak")
    published = Schedule(
        epochs=200, batch=250, learning_rate=0.01, weight_decay=5e-4, momentum=0.9, nesterov=True, cosine=True
    )
    labels: Tensor  # (N,)
    clean: Tensor  # (N,) whether the label is learned

    def __init__(self, backbone: Backbone, clusters: int, labels: Tensor, clean: Tensor) -> None:
        super().__init__()
        backbones = [copy.deepcopy(backbone).requires_grad_() for _ in range(2)]
        self.networks = nn.ModuleList(
            [ClusteringNetwork(each, nn.Linear(each.features, clusters)) for each in backbones]
        )
        self.register_buffer("labels", labels)
        self.register_buffer("clean", clean)

    @classmethod
    def of(cls, start: Start) -> "RUC":
        labels = torch.arange(start.images) % start.clusters
        return cls(start.backbone, start.clusters, labels, labels % 2 == 0)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> the mean probabilities of both networks (B, K)."""
        return torch.stack([network(images).float().softmax(dim=1) for network in self.networks]).mean(dim=0)

    def begin_(self, epoch: Epoch, pictures: Pictures, device: torch.device) -> bool:
        """Add confident images to the clean ones; False if there is no clean image."""
        if epoch.number:
            with eval_mode(self):
                probs = [pictures.outputs(network, device).softmax(dim=1) for network in self.networks]
            self.add_clean_(probs, threshold=clean_threshold(epoch))
        return bool(self.clean.any())

    def add_clean_(self, probs: list[Tensor], *, threshold: float) -> None:
        """Co-refurbishing: unclean images get the label of the more confident network, 2 x (N, K)."""
        confidence, label = torch.cat(probs, dim=1).max(dim=1)  # (N,)
        added = (confidence > threshold).to(self.clean.device) & ~self.clean
        self.labels[added] = (label % probs[0].shape[1]).to(self.labels.device)[added]
        self.clean |= added

    def shown(self, images: Tensor, random: torch.Generator) -> tuple[Tensor, ...]:
        """Random clean and unclean images, a batch of each."""
        clean, others = (_drawn(mask.cpu(), len(images), random) for mask in (self.clean, ~self.clean))
        return clean, clean, others, others

    def loss(self, seen: Seen) -> Tensor:
        """The sum of both networks' losses."""
        weak, strong, *others = seen.views
        with torch.no_grad():
            predictions = [network(weak).float().softmax(dim=1) for network in self.networks]  # 2 x (B, K)
            guesses = [network(view).float().softmax(dim=1) for network in self.networks for view in others]
            guess = sharpened(torch.stack(guesses).mean(dim=0), TEMPERATURE)
        given = F.one_hot(self.labels[seen.shown[0].to(self.labels.device)], guess.shape[1]).float()
        losses = []
        for network, other in zip(self.networks, reversed(predictions), strict=True):
            labels = torch.cat([sharpened(refined(given, other), TEMPERATURE), guess, guess])  # (3 B, K)
            images, target = mixed(torch.cat([weak, *others]), labels, seen.random, alpha=ALPHA)
            logits = network(torch.cat([images, strong])).float()  # (4 B, K)
            labeled, unlabeled, strongly = logits.split([len(weak), 2 * len(weak), len(weak)])
            losses += [
                F.cross_entropy(labeled, target[: len(weak)]),
                UNLABELED_WEIGHT
                * max(0.1, seen.epoch.done)
                * F.mse_loss(unlabeled.softmax(dim=1), target[len(weak) :]),
                F.cross_entropy(strongly, smoothed(given)),
            ]
        return torch.stack(losses).sum()


def clean_threshold(epoch: Epoch) -> float:
    """The confidence above which an image becomes clean: 0.9, and 0.02 more after each fifth of the training."""
    return 0.9 + 0.02 * int(5 * epoch.done)


def refined(given: Tensor, other: Tensor) -> Tensor:
    """Mean of labels (B, K) and the other network's prediction (B, K), weighted by the confidence of the latter."""
    weight = other.amax(dim=1, keepdim=True)
    return (1.0 - weight) * given + weight * other


def smoothed(labels: Tensor) -> Tensor:
    """(1 - e) y + e / (K - 1) * (1 - y): (B, K) -> (B, K)."""
    return (1.0 - SMOOTHING) * labels + SMOOTHING / (labels.shape[1] - 1) * (1.0 - labels)


def clean_labels(probs: Tensor, features: Tensor, *, confident: float) -> Tensor:
    """Which predictions (N, K) are confident and the same as most neighbors', by features (N, D): (N,)."""
    confidence, labels = probs.max(dim=1)
    neighbors = nearest(unit_rows(features), min(NEIGHBORS, len(features) - 1)).index  # (N, S)
    votes = torch.zeros_like(probs)
    votes.scatter_add_(1, labels[neighbors], torch.ones_like(votes[:, :1]).expand(-1, neighbors.shape[1]))  # (N, K)
    return (confidence > confident) & (votes.argmax(dim=1) == labels)


def _drawn(mask: Tensor, count: int, random: torch.Generator) -> Tensor:
    """Random positions (count,) where the mask (N,) is true; of all images if it is true nowhere."""
    places = mask.nonzero().squeeze(dim=1) if mask.any() else torch.arange(len(mask))
    return places[torch.randint(len(places), (count,), generator=random)]
