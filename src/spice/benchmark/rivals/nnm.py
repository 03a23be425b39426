"""NNM on frozen features: an image agrees with its nearest neighbor of the batch, and with one of all images'.

Dang et al., 2021. Loss of a head, at both levels: -mean ln <p_i, p_j>, and -mean ln softmax(cosines of the column of a
cluster over images with all columns over their neighbors) at its own; and - weight * H(mean p) once. The published one
fine-tunes its backbone, so that neighbors change as it learns; here they are those of the frozen features. Heads,
neighbors and weight: `configs/scan/scan_cifar10.yml` of the authors' repository (ZhiyuanDang/NNM).

Shapes: N images, D feature width, K clusters, H heads, B pairs in a batch.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.benchmark.rivals.classic import Features, Labels
from spice.benchmark.rivals.neighbor_heads import LinearHeads, Pairs, labels_of, train_linear_heads
from spice.benchmark.rivals.scan import BATCH, ENTROPY_WEIGHT, EPOCHS, LEARNING_RATE, LEAST_STEPS, NEIGHBORS
from spice.randomness import generator

HEADS = 3


def fit(features: Features, clusters: int, *, seed: int) -> Labels:
    """Labels by the head with the lowest loss in the last epoch, of three; schedule and neighbors as for SCAN."""
    pairs = Pairs(features, neighbors=NEIGHBORS, batch=BATCH, seed=seed)
    heads = LinearHeads(HEADS, features.shape[1], clusters, random=generator(seed, "nnm"))

    def losses_of(images: Tensor, neighbors: Tensor) -> Tensor:
        logits = heads(images)  # (H, K, B)
        return nnm_loss(logits, logits[:, :, nearest_in_batch(images)], heads(neighbors), entropy_weight=ENTROPY_WEIGHT)

    losses = train_linear_heads(heads, pairs, losses_of, rate=LEARNING_RATE, epochs=EPOCHS, least_steps=LEAST_STEPS)
    return labels_of(heads, pairs, losses=losses)


def nearest_in_batch(images: Tensor) -> Tensor:
    """The other image of the batch with the largest cosine: (B, D) -> (B,)."""
    unit = F.normalize(images, dim=1)
    return (unit @ unit.T).fill_diagonal_(-torch.inf).argmax(dim=1)


def nnm_loss(logits: Tensor, local: Tensor, overall: Tensor, *, entropy_weight: float) -> Tensor:
    """Of each head, (H,), from logits of images, and of their neighbors in the batch and of all, (H, K, B) each."""
    probs = logits.softmax(dim=1)
    losses = torch.zeros(len(logits), device=logits.device, dtype=logits.dtype)
    for neighbors in (local.softmax(dim=1), overall.softmax(dim=1)):
        losses = losses - (probs * neighbors).sum(dim=1).clamp(min=1e-12).log().mean(dim=1)
        cosines = F.normalize(probs, dim=2) @ F.normalize(neighbors, dim=2).transpose(1, 2)  # (H, K, K)
        losses = losses - cosines.log_softmax(dim=2).diagonal(dim1=1, dim2=2).mean(dim=1)
    mean = probs.mean(dim=2)  # (H, K)
    return losses + entropy_weight * mean.xlogy(mean).sum(dim=1)
