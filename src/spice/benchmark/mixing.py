"""MixMatch and ReMixMatch (Table V): guessed labels, and mixup of images.

Shapes: L labeled and U unlabeled images in a step, K classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.engine.device import autocast
from spice.models.backbone import Backbone
from spice.settings import JointSettings
from spice.stages.joint.algorithms import Algorithm, Batch, register
from spice.stages.joint.train import ClusteringNetwork

ROTATIONS = 4  # by 0, 90, 180 and 270 degrees
AVERAGED_STEPS = 128  # over which ReMixMatch averages predictions and labels
RAMP_STEPS = 16_384  # 1,024 * 1,024 images, 64 in a step


def ramp(batch: Batch) -> float:
    """Rises from 0 to 1. If guesses count sooner, an untrained network gives all images the same class."""
    return min(1.0, batch.step / RAMP_STEPS)


@register("mixmatch")
class MixMatch(Algorithm):
    """Sharpened guesses, and mixup of all images (Berthelot et al., 2019).

    The guess for an image is the mean probability over two weak views, raised to the power 1 / 0.5 and normalized. Then
    each view, labeled or not, and its label are mixed with another random one: l x + (1 - l) x', l = max(b, 1 - b),
    b from Beta(0.75, 0.75). Loss: cross-entropy of the labeled images + w(t) * mean squared error of the others, after
    mixing. Constants: `runs/table5.sh` of the authors' repository (google-research/mixmatch), for CIFAR-10.
    """

    views = ("weak", "weak")
    temperature = 0.5
    weight = 75.0

    def loss(self, batch: Batch) -> Tensor:
        """All views are mixed, and then learned."""
        with torch.no_grad():
            guess = torch.stack([batch.network(view).softmax(dim=1) for view in batch.unlabeled]).mean(dim=0)  # (U, K)
            guess = sharpened(guess, self.temperature)
        labels = torch.cat([F.one_hot(batch.labels, self.clusters).to(guess.dtype), guess, guess])  # (L + 2 U, K)
        images, target = mixed(torch.cat([batch.labeled, *batch.unlabeled]), labels, batch.random)
        (logits,) = batch.logits(images)
        known = len(batch.labels)
        difference = F.mse_loss(logits[known:].softmax(dim=1), target[known:])
        return F.cross_entropy(logits[:known], target[:known]) + self.weight * ramp(batch) * difference


@register("remixmatch")
class ReMixMatch(Algorithm):
    """MixMatch with distribution alignment, augmentation anchoring and a rotation loss (Berthelot et al., 2020).

    The guess for an image is the prediction for its weak view, times the ratio of the mean label to the mean prediction
    (both over the last 128 steps), normalized and sharpened. Eight strong views and the weak one learn it.

    Loss, with w rising from 0 to 1: cross-entropy of the labeled images after mixing, + 1.5 w * that of the others
    after mixing, + 0.5 w * that of the first strong view before mixing, + 0.5 * that of predicting the rotation of this
    view. Constants: flags and `runs/ssl/cifar10.sh` of the authors' repository (google-research/remixmatch), which has
    four strong views for STL-10. The authors learn their strong augmentation (CTAugment); here it is RandAugment.
    """

    views = ("weak", "strong", "strong", "strong", "strong", "strong", "strong", "strong", "strong")
    labeled_view = "strong"
    temperature = 0.5
    mixed_weight, strong_weight, rotation_weight = 1.5, 0.5, 0.5

    def __init__(self, settings: JointSettings, clusters: int) -> None:
        super().__init__(settings, clusters)
        self.predicted = torch.zeros(0, clusters)  # mean of each of the last steps, (<= 128, K)
        self.labeled = torch.zeros(0, clusters)

    def loss(self, batch: Batch) -> Tensor:
        """All views learn the prediction for the weak one."""
        assert isinstance(batch.network, RotationNetwork), "ReMixMatch needs a layer that predicts rotations"
        given = F.one_hot(batch.labels, self.clusters).float()  # (L, K)
        with torch.no_grad():
            guess = sharpened(self.aligned(batch.network(batch.unlabeled[0]).softmax(dim=1), given), self.temperature)
        labels = torch.cat([given, *[guess] * len(batch.unlabeled)])  # (L + 9 U, K)
        images, target = mixed(torch.cat([batch.labeled, *batch.unlabeled]), labels, batch.random)
        first = batch.unlabeled[1]
        logits, strong = batch.logits(images, first)
        known = len(batch.labels)
        rotations = torch.randint(ROTATIONS, (len(first),), generator=batch.random).to(first.device)
        with autocast(first.device):
            rotation_logits = batch.network.predict_rotation(rotated(first, rotations)).float()  # (U, 4)
        return (
            F.cross_entropy(logits[:known], target[:known])
            + self.mixed_weight * ramp(batch) * F.cross_entropy(logits[known:], target[known:])
            + self.strong_weight * ramp(batch) * F.cross_entropy(strong, guess)
            + self.rotation_weight * F.cross_entropy(rotation_logits, rotations)
        )

    def aligned(self, probs: Tensor, given: Tensor) -> Tensor:
        """Distribution alignment of probs (U, K), in a step with the labels `given` (L, K): -> (U, K)."""
        self.predicted = torch.cat([self.predicted.to(probs.device), probs.mean(dim=0)[None]])[-AVERAGED_STEPS:]
        self.labeled = torch.cat([self.labeled.to(probs.device), given.mean(dim=0)[None]])[-AVERAGED_STEPS:]
        ratio = (self.labeled.mean(dim=0) + 1e-6) / (self.predicted.mean(dim=0) + 1e-6)  # (K,)
        return F.normalize(probs * ratio, p=1.0, dim=1)

    def state(self) -> dict[str, Tensor]:
        """The mean predictions and labels of the last steps."""
        return {"predicted": self.predicted, "labeled": self.labeled}

    def restore_(self, state: dict[str, Tensor]) -> None:
        self.predicted, self.labeled = state["predicted"], state["labeled"]


class RotationNetwork(ClusteringNetwork):
    """A network with one more layer, which predicts by how much an image was rotated."""

    def __init__(self, backbone: Backbone, head: nn.Module) -> None:
        super().__init__(backbone, head)
        self.rotation = nn.Linear(backbone.features, ROTATIONS)

    def predict_rotation(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> logits (B, 4)."""
        logits: Tensor = self.rotation(self.backbone(images))
        return logits


def rotated(images: Tensor, rotations: Tensor) -> Tensor:
    """Images (B, C, S, S), each rotated by its number of quarter turns (B,)."""
    results = torch.empty_like(images)
    for quarters in range(ROTATIONS):
        results[rotations == quarters] = images[rotations == quarters].rot90(quarters, dims=(2, 3))
    return results


def sharpened(probs: Tensor, temperature: float) -> Tensor:
    """p_k^(1 / t) / sum_j p_j^(1 / t): (U, K) -> (U, K)."""
    powers = probs ** (1.0 / temperature)
    return powers / powers.sum(dim=1, keepdim=True)


def mixed(images: Tensor, labels: Tensor, random: torch.Generator, *, alpha: float = 0.75) -> tuple[Tensor, Tensor]:
    """Mixup: images (B, C, S, S) and labels (B, K), each mixed with a random other one."""
    order = torch.randperm(len(images), generator=random).to(images.device)
    share = shares(len(images), random, alpha=alpha).to(images.device)
    first, second = share.view(-1, 1, 1, 1), share.view(-1, 1)
    return first * images + (1.0 - first) * images[order], second * labels + (1.0 - second) * labels[order]


def shares(count: int, random: torch.Generator, *, alpha: float) -> Tensor:
    """max(b, 1 - b), b from Beta(alpha, alpha) as a ratio of two gamma variates, (count,)."""
    drawn = torch._standard_gamma(torch.full((2, count), alpha), generator=random).clamp(min=1e-30)
    share = drawn[0] / drawn.sum(dim=0)
    return torch.maximum(share, 1.0 - share)
