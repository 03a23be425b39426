"""MixMatch: guessed labels, sharpened, and every image mixed with a random other one (Berthelot et al., 2019).

The guess for an image is the mean probability over two weak views, raised to the power 1 / 0.5. Then every view,
labeled or not, is mixed with a random other one: l x + (1 - l) x', l = max(b, 1 - b), b from Beta(0.75, 0.75), and so
are the labels.
Loss: cross-entropy of the mixed labeled + w(t) * mean squared difference of the mixed others.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.stages.joint.algorithms import Algorithm, Batch, register


@register("mixmatch")
class MixMatch(Algorithm):
    """All values as published for CIFAR-10."""

    views = ("weak", "weak")
    temperature = 0.5
    alpha = 0.75
    weight = 75.0
    ramp_steps = 16_000  # until w(t) = weight; if it rises sooner, an untrained network gives every image one class

    def loss(self, batch: Batch) -> Tensor:
        """Each image is mixed with another one, by a random share."""
        with torch.no_grad():
            guess = torch.stack([batch.network(view).softmax(dim=1) for view in batch.others]).mean(dim=0)  # (U, K)
            guess = sharpened(guess, self.temperature)
        images = torch.cat([batch.labeled, *batch.others])  # (L + 2 U, C, S, S)
        labels = torch.cat([F.one_hot(batch.labels, self.clusters).to(guess.dtype), guess, guess])  # (L + 2 U, K)
        order = torch.randperm(len(images), generator=batch.random).to(images.device)
        share = self._shares(len(images), batch.random).to(images.device)
        target = _mixed(labels, order, share.view(-1, 1))
        (logits,) = batch.logits(_mixed(images, order, share.view(-1, 1, 1, 1)))
        known = len(batch.labels)
        difference = F.mse_loss(logits[known:].softmax(dim=1), target[known:])
        weight = self.weight * min(1.0, batch.step / self.ramp_steps)
        return F.cross_entropy(logits[:known], target[:known]) + weight * difference

    def _shares(self, count: int, random: torch.Generator) -> Tensor:
        """max(b, 1 - b), b from Beta(alpha, alpha) as a ratio of two gamma variates, (count,)."""
        concentration = torch.full((2, count), self.alpha)
        drawn = torch._standard_gamma(concentration, generator=random).clamp(min=1e-30)
        share = drawn[0] / drawn.sum(dim=0)
        return torch.maximum(share, 1.0 - share)


def sharpened(probs: Tensor, temperature: float) -> Tensor:
    """p_k^(1 / t) / sum_j p_j^(1 / t): (U, K) -> (U, K)."""
    powers = probs ** (1.0 / temperature)
    return powers / powers.sum(dim=1, keepdim=True)


def _mixed(values: Tensor, order: Tensor, share: Tensor) -> Tensor:
    return share * values + (1.0 - share) * values[order]
