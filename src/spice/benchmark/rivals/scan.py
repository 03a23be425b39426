"""SCAN's objective on frozen features: an image and its neighbor should share a cluster, and all clusters be used.

Loss of a head: -mean_i ln <p_i, p_j> - weight * H(mean p), with j one of the 20 nearest neighbors of i (Van Gansbeke et
al., 2020). Neighbors and weight are from the authors' `configs/scan/`, the ten heads on a frozen network from their
ImageNet configurations; batch and learning rate are ours. `spice.benchmark.deep.scan` is SCAN as published for small
images.

Shapes: N images, K clusters, H heads, B pairs in a batch.
"""

from torch import Tensor

from spice.benchmark.rivals.classic import Features, Labels
from spice.benchmark.rivals.neighbor_heads import LinearHeads, NeighborHead, Pairs, labels_of, train_linear_heads
from spice.randomness import generator

NEIGHBORS = 20
ENTROPY_WEIGHT = 5.0
HEADS = 10
EPOCHS = 50
BATCH = 1024  # large, so that the mean probability estimates the cluster sizes
LEAST_STEPS = 1000
LEARNING_RATE = 1e-3


def fit(features: Features, clusters: int, *, seed: int) -> Labels:
    """Labels by the best of ten heads, with the lowest loss in the last epoch."""
    heads, pairs, losses = _trained(features, clusters, seed)
    return labels_of(heads, pairs, losses=losses)


def train(features: Features, clusters: int, *, seed: int) -> NeighborHead:
    """The best head, for new images."""
    heads, pairs, losses = _trained(features, clusters, seed)
    return NeighborHead(heads, pairs, int(losses.argmin()))


def _trained(features: Features, clusters: int, seed: int) -> tuple[LinearHeads, Pairs, Tensor]:
    """The heads, the pairs they were trained on, and their losses (H,) in the last epoch."""
    pairs = Pairs(features, neighbors=NEIGHBORS, batch=BATCH, seed=seed)
    heads = LinearHeads(HEADS, features.shape[1], clusters, random=generator(seed, "scan"))

    def losses_of(images: Tensor, neighbors: Tensor) -> Tensor:
        return scan_loss(heads(images), heads(neighbors), entropy_weight=ENTROPY_WEIGHT)  # (H,)

    losses = train_linear_heads(heads, pairs, losses_of, rate=LEARNING_RATE, epochs=EPOCHS, least_steps=LEAST_STEPS)
    return heads, pairs, losses


def scan_loss(logits: Tensor, neighbor_logits: Tensor, *, entropy_weight: float) -> Tensor:
    """-mean_i ln <p_i, p_j> - weight * H(mean p) of each head: (H, K, B), (H, K, B) -> (H,)."""
    log_probs = logits.log_softmax(dim=1)
    agreement = (log_probs + neighbor_logits.log_softmax(dim=1)).logsumexp(dim=1)  # (H, B)
    mean = log_probs.exp().mean(dim=2)  # (H, K)
    entropy = -mean.xlogy(mean).sum(dim=1)  # (H,)
    return -agreement.mean(dim=1) - entropy_weight * entropy
