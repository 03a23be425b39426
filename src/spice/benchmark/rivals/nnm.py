"""NNM on frozen features: an image should agree with its nearest neighbor in the batch and with one in all images.

Dang et al., 2021. The loss of a head has two terms for each of the two neighbors: -mean_i ln <p_i, p_j>, and
-mean_k ln softmax(cosines of cluster k's probabilities over images with each cluster's over their neighbors)_k. Added
to these is -weight * H(mean p). The authors fine-tune the backbone, so that neighbors change during training; here,
features are frozen. Heads, neighbors and weight: `configs/scan/scan_cifar10.yml` of the authors' repository
(ZhiyuanDang/NNM).

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
    """Labels by the best of three heads, with the lowest loss in the last epoch. Schedule and neighbors are SCAN's."""
    pairs = Pairs(features, neighbors=NEIGHBORS, batch=BATCH, seed=seed)
    heads = LinearHeads(HEADS, features.shape[1], clusters, random=generator(seed, "nnm"))

    def losses_of(images: Tensor, neighbors: Tensor) -> Tensor:
        logits = heads(images)  # (H, K, B)
        return nnm_loss(logits, logits[:, :, nearest_in_batch(images)], heads(neighbors), entropy_weight=ENTROPY_WEIGHT)

    losses = train_linear_heads(heads, pairs, losses_of, rate=LEARNING_RATE, epochs=EPOCHS, least_steps=LEAST_STEPS)
    return labels_of(heads, pairs, losses=losses)


def nearest_in_batch(images: Tensor) -> Tensor:
    """For each image, the other image of the batch with the largest cosine: (B, D) -> (B,)."""
    unit = F.normalize(images, dim=1)
    return (unit @ unit.T).fill_diagonal_(-torch.inf).argmax(dim=1)


def nnm_loss(logits: Tensor, local: Tensor, overall: Tensor, *, entropy_weight: float) -> Tensor:
    """The loss of each head, (H,), from logits of images and of their neighbors in the batch and in all images.

    Logits: (H, K, B) each.
    """
    probs = logits.softmax(dim=1)
    losses = torch.zeros(len(logits), device=logits.device, dtype=logits.dtype)
    for neighbors in (local.softmax(dim=1), overall.softmax(dim=1)):
        losses = losses - (probs * neighbors).sum(dim=1).clamp(min=1e-12).log().mean(dim=1)
        cosines = F.normalize(probs, dim=2) @ F.normalize(neighbors, dim=2).transpose(1, 2)  # (H, K, K)
        losses = losses - cosines.log_softmax(dim=2).diagonal(dim1=1, dim2=2).mean(dim=1)
    mean = probs.mean(dim=2)  # (H, K)
    return losses + entropy_weight * mean.xlogy(mean).sum(dim=1)
