"""TURTLE on one feature space: finds the labels that a linear classifier learns most easily (Gadetsky et al., 2024).

Labels are tau = softmax(theta f). Inner problem: starting from zero, a linear classifier W takes a few gradient steps
on the cross-entropy of W f with tau. Outer problem: theta minimizes the cross-entropy of the trained W f with tau,
minus weight * H(mean tau). The authors take 6,000 steps on all features; here, there are fewer steps on principal
components, which a CPU takes in seconds.

Shapes: B images in a batch, R components, K clusters.
"""

import torch
from sklearn.decomposition import PCA
from torch import Tensor

from spice.benchmark.rivals.classic import Features, Labels, unit
from spice.core import negative_entropy
from spice.data.batches import batches
from spice.randomness import generator

COMPONENTS = 128
ENTROPY_WEIGHT = 10.0
STEPS, INNER_STEPS = 1500, 10
BATCH = 1000
LEARNING_RATE, INNER_RATE = 5e-3, 1.0


def fit(features: Features, clusters: int, *, seed: int) -> Labels:
    """Labels by theta after the last step."""
    points = unit(features)
    width = min(COMPONENTS, *points.shape)
    inputs = torch.from_numpy(PCA(width, random_state=seed).fit_transform(points)).float()
    inputs = inputs / inputs.std().clamp(min=1e-12)
    random = generator(seed, "turtle")
    theta = (0.1 * torch.randn(width, clusters, generator=random)).requires_grad_()
    optimizer = torch.optim.Adam([theta], lr=LEARNING_RATE)
    batch_size, step = min(BATCH, len(inputs)), 0
    while step < STEPS:
        for batch in batches(len(inputs), batch_size, seed=seed, stage="turtle", epoch=step):
            some = inputs[batch.images]  # (B, R)
            loss = turtle_loss(some, some @ theta, entropy_weight=ENTROPY_WEIGHT)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            step += 1
    with torch.no_grad():
        labels: Labels = (inputs @ theta).argmax(dim=1).numpy()
    return labels


def turtle_loss(inputs: Tensor, logits: Tensor, *, entropy_weight: float) -> Tensor:
    """The outer loss, after the inner steps: inputs (B, R), logits of the labels (B, K) -> ()."""
    probs = logits.softmax(dim=1)
    weights = fit_classifier(inputs, probs.detach())
    log_probs = (inputs @ weights).log_softmax(dim=1)  # (B, K)
    return -(probs * log_probs).sum(dim=1).mean() + entropy_weight * negative_entropy(probs)


def fit_classifier(inputs: Tensor, probs: Tensor) -> Tensor:
    """The inner problem: W (R, K) by gradient descent on the cross-entropy of softmax(inputs W) with probs."""
    weights = torch.zeros(inputs.shape[1], probs.shape[1])
    for _ in range(INNER_STEPS):
        error = (inputs @ weights).softmax(dim=1) - probs
        weights = weights - INNER_RATE / inputs.shape[1] * (inputs.T @ error) / len(inputs)
    return weights
