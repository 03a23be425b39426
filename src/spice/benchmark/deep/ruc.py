"""RUC, an addition to any result: two networks learn its clean labels as MixMatch would (Park et al., 2021).

Shapes: N images, B clean and B other images in a step, K clusters, D feature width, S neighbors.
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
OTHERS_WEIGHT = 25.0  # in the end; it rises from a tenth of it
SMOOTHING = 0.5
ALPHA = 4.0  # images are mixed by shares from Beta(4, 4)


class RUC(Objective):
    """Retrain a network on the labels of its own result that are clean, with every other image as unlabeled.

    Clean: the label is confident, and that of most neighbors ("hybrid"). Loss of each of two networks, which start as
    the given one with new last layers: MixMatch's, with labels that the other network has refined and guesses that both
    have made, plus cross-entropy of the smoothed labels for strong views. Between epochs, an image becomes clean, and
    gets a new label if one of the two networks is confident. The prediction is the mean of both.

    Constants: `main_ruc_cifar10.py` of the authors' repository (deu30303/RUC), and the rising threshold for joining of
    `main_ruc_stl10.py`, which has batches of 100 and a weight of 50. There the networks learn by turns of an epoch,
    from two weak views of a clean image, and weigh the other's answer by its confidence an epoch ago. Here both learn
    in one step, from one such view, and the confidence is that of the moment.
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
        """Let confident images join the clean ones; False if there are none."""
        if epoch.number:
            with eval_mode(self):
                probs = [pictures.outputs(network, device).softmax(dim=1) for network in self.networks]
            self.join_(probs, threshold=joining(epoch))
        return bool(self.clean.any())

    def join_(self, probs: list[Tensor], *, threshold: float) -> None:
        """Co-refurbishing: what the more confident of two networks says, 2 x (N, K), of images that are not clean."""
        confidence, label = torch.cat(probs, dim=1).max(dim=1)  # (N,)
        joins = (confidence > threshold).to(self.clean.device) & ~self.clean
        self.labels[joins] = (label % probs[0].shape[1]).to(self.labels.device)[joins]
        self.clean |= joins

    def shown(self, images: Tensor, random: torch.Generator) -> tuple[Tensor, ...]:
        """As many clean images as a batch has, and as many of the others."""
        clean, others = (_drawn(mask.cpu(), len(images), random) for mask in (self.clean, ~self.clean))
        return clean, clean, others, others

    def loss(self, seen: Seen) -> Tensor:
        """The sum of both networks' losses."""
        weak, strong, *others = seen.views
        with torch.no_grad():
            answers = [network(weak).float().softmax(dim=1) for network in self.networks]  # 2 x (B, K)
            guesses = [network(view).float().softmax(dim=1) for network in self.networks for view in others]
            guess = sharpened(torch.stack(guesses).mean(dim=0), TEMPERATURE)
        given = F.one_hot(self.labels[seen.shown[0].to(self.labels.device)], guess.shape[1]).float()
        losses = []
        for network, other in zip(self.networks, reversed(answers), strict=True):
            labels = torch.cat([sharpened(refined(given, other), TEMPERATURE), guess, guess])  # (3 B, K)
            images, target = mixed(torch.cat([weak, *others]), labels, seen.random, alpha=ALPHA)
            logits = network(torch.cat([images, strong])).float()  # (4 B, K)
            known, rest, strongly = logits.split([len(weak), 2 * len(weak), len(weak)])
            losses += [
                F.cross_entropy(known, target[: len(weak)]),
                OTHERS_WEIGHT * max(0.1, seen.epoch.done) * F.mse_loss(rest.softmax(dim=1), target[len(weak) :]),
                F.cross_entropy(strongly, smoothed(given)),
            ]
        return torch.stack(losses).sum()


def joining(epoch: Epoch) -> float:
    """The confidence above which an image becomes clean: from 0.9 up by 0.02 in every fifth of the training."""
    return 0.9 + 0.02 * int(5 * epoch.done)


def refined(given: Tensor, other: Tensor) -> Tensor:
    """Labels (B, K) and the other network's prediction (B, K), which counts as much as it is confident."""
    weight = other.amax(dim=1, keepdim=True)
    return (1.0 - weight) * given + weight * other


def smoothed(labels: Tensor) -> Tensor:
    """(1 - e) y + e / (K - 1) * (1 - y): (B, K) -> (B, K)."""
    return (1.0 - SMOOTHING) * labels + SMOOTHING / (labels.shape[1] - 1) * (1.0 - labels)


def clean_labels(probs: Tensor, features: Tensor, *, confident: float) -> Tensor:
    """Which of probs (N, K) are confident, and say what most neighbors by features (N, D) say: (N,)."""
    confidence, labels = probs.max(dim=1)
    neighbors = nearest(unit_rows(features), min(NEIGHBORS, len(features) - 1)).index  # (N, S)
    votes = torch.zeros_like(probs)
    votes.scatter_add_(1, labels[neighbors], torch.ones_like(votes[:, :1]).expand(-1, neighbors.shape[1]))  # (N, K)
    return (confidence > confident) & (votes.argmax(dim=1) == labels)


def _drawn(mask: Tensor, count: int, random: torch.Generator) -> Tensor:
    """Positions (count,) where the mask (N,) is true; of all images if it is so nowhere."""
    places = mask.nonzero().squeeze(dim=1) if mask.any() else torch.arange(len(mask))
    return places[torch.randint(len(places), (count,), generator=random)]
