"""TEMI: maximizes the pointwise mutual information of neighbors, with a moving average of the heads as teacher.

Adaloglou et al., 2023. Loss of a head, symmetrized: -w_ij ln sum_c (p_ic p'_jc)^beta / mean p'_c, where p' are the
teacher's probabilities. The weight w_ij = <p'_i, p'_j>, averaged over heads, estimates whether i and j share a cluster.

Shapes: N images, K clusters, H heads, B pairs in a batch.
"""

import copy

import torch
from torch import Tensor

from spice.benchmark.rivals.classic import Features, Labels
from spice.benchmark.rivals.neighbor_heads import LinearHeads, Pairs, labels_of, train_linear_heads
from spice.core import ema_update_
from spice.randomness import generator

NEIGHBORS = 50
HEADS = 16
EPOCHS = 100
BATCH = 1024
LEAST_STEPS = 3000  # the authors: 5,000 on CIFAR-10
LEARNING_RATE = 1e-4
TEMPERATURE = 0.1
BETA = 0.6
TEACHER_MOMENTUM = 0.996
MEAN_MOMENTUM = 0.9


def fit(features: Features, clusters: int, *, seed: int) -> Labels:
    """Labels by the best of the teacher's sixteen heads, with the lowest loss in the last epoch."""
    pairs = Pairs(features, neighbors=NEIGHBORS, batch=BATCH, seed=seed)
    student = LinearHeads(HEADS, features.shape[1], clusters, random=generator(seed, "temi"))
    teacher = copy.deepcopy(student).requires_grad_(False)
    mean = torch.full((HEADS, clusters, 1), 1 / clusters)  # moving average of the teacher's probabilities

    def losses_of(*pair: Tensor) -> Tensor:
        targets = [_log_probs(teacher(side)) for side in pair]  # 2 x (H, K, B)
        mean.lerp_(torch.cat(targets, dim=2).exp().mean(dim=2, keepdim=True), 1 - MEAN_MOMENTUM)
        return temi_loss([_log_probs(student(side)) for side in pair], targets, mean, beta=BETA)  # (H,)

    def update_teacher() -> None:
        ema_update_(teacher, student, momentum=TEACHER_MOMENTUM)

    losses = train_linear_heads(
        student, pairs, losses_of, rate=LEARNING_RATE, epochs=EPOCHS, least_steps=LEAST_STEPS, after=update_teacher
    )
    return labels_of(teacher, pairs, losses=losses)


def temi_loss(student: list[Tensor], teacher: list[Tensor], mean: Tensor, *, beta: float) -> Tensor:
    """The loss of each head, (H,), from log-probabilities of each pair's images, 2 x (H, K, B), and mean (H, K, 1)."""
    weight = (teacher[0] + teacher[1]).exp().sum(dim=1).mean(dim=0)  # (B,)
    information = [
        (beta * (student[here] + teacher[there]) - mean.log()).logsumexp(dim=1) for here, there in ((0, 1), (1, 0))
    ]  # 2 x (H, B)
    return -(weight * (information[0] + information[1]) / 2).mean(dim=1)


def _log_probs(logits: Tensor) -> Tensor:
    return (logits / TEMPERATURE).log_softmax(dim=1)
