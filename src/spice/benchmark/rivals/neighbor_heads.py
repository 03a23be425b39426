"""Common code of SCAN, NNM and TEMI: linear heads trained on pairs of neighbors, of which the best is used.

Shapes: N images, D feature width, K clusters, H heads, B pairs in a batch, S neighbors.
"""

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.benchmark.rivals.classic import Features, Labels, unit
from spice.data.batches import batches
from spice.neighbors import nearest
from spice.randomness import generator


class LinearHeads(nn.Module):
    """H independent linear layers in one module: (B, D) -> logits (H, K, B).

    Images come last, because a softmax over a short last dimension takes several times as long on a CPU.
    """

    def __init__(self, heads: int, width: int, clusters: int, *, random: torch.Generator) -> None:
        super().__init__()
        self.heads, self.clusters = heads, clusters
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(heads * clusters, width).uniform_(-bound, bound, generator=random))
        self.bias = nn.Parameter(torch.zeros(heads * clusters, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        logits = torch.addmm(self.bias, self.weight, inputs.T)  # (H * K, B)
        return logits.view(self.heads, self.clusters, -1)  # (H, K, B)


class NeighborHead(nn.Module):
    """One head for new features, with the preprocessing of `Pairs`: (B, D) -> logits (B, K)."""

    mean: Tensor  # (D,)
    spread: Tensor  # ()

    def __init__(self, heads: LinearHeads, pairs: "Pairs", number: int) -> None:
        super().__init__()
        rows = slice(number * heads.clusters, (number + 1) * heads.clusters)
        self.linear = nn.Linear(heads.weight.shape[1], heads.clusters)
        with torch.no_grad():
            self.linear.weight.copy_(heads.weight[rows])
            self.linear.bias.copy_(heads.bias[rows, 0])
        self.register_buffer("mean", pairs.mean)
        self.register_buffer("spread", pairs.spread)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear((F.normalize(features, dim=1) - self.mean) / self.spread)
        return logits


class Pairs:
    """Batches of images, each with a random one of its nearest neighbors."""

    def __init__(self, features: Features, *, neighbors: int, batch: int, seed: int) -> None:
        points = torch.from_numpy(unit(features))
        self.neighbors = nearest(points, min(neighbors, len(points) - 1)).index  # (N, S)
        # Standardized, as the initialization of linear layers expects.
        self.mean = points.mean(dim=0)
        self.spread = (points - self.mean).std().clamp(min=1e-12)
        self.inputs = (points - self.mean) / self.spread  # (N, D)
        self.batch, self.seed = min(batch, len(points)), seed

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs of images and of their neighbors, (B, D) each; every image once."""
        for batch in batches(len(self.inputs), self.batch, seed=self.seed, stage="pairs", epoch=number):
            random = generator(self.seed, "neighbor", number, batch.number)
            choice = torch.randint(self.neighbors.shape[1], (len(batch.images),), generator=random)
            yield self.inputs[batch.images], self.inputs[self.neighbors[batch.images, choice]]


# Inputs of images and of their neighbors, (B, D) each -> the loss of every head, (H,).
Losses = Callable[[Tensor, Tensor], Tensor]


def train_linear_heads(
    heads: LinearHeads,
    pairs: Pairs,
    losses_of: Losses,
    *,
    rate: float,
    epochs: int,
    least_steps: int,
    after: Callable[[], None] | None = None,
) -> Tensor:
    """Minimize every head's loss with Adam, in place. Returns the losses, summed over the last epoch, (H,).

    Small collections train for more than `epochs` epochs, to get at least `least_steps` steps. `after` is called after
    every step.
    """
    optimizer = torch.optim.Adam(heads.parameters(), lr=rate)
    steps = max(1, len(pairs.inputs) // pairs.batch)
    for epoch in range(max(epochs, math.ceil(least_steps / steps))):
        total = torch.zeros(heads.heads)
        for images, neighbors in pairs.epoch(epoch):
            losses = losses_of(images, neighbors)  # (H,)
            optimizer.zero_grad(set_to_none=True)
            losses.sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if after is not None:
                after()
            total += losses.detach()
    return total


@torch.no_grad()
def labels_of(heads: LinearHeads, pairs: Pairs, *, losses: Tensor) -> Labels:
    """Labels (N,) by the head with the lowest loss (H,)."""
    labels: Labels = heads(pairs.inputs)[losses.argmin()].argmax(dim=0).numpy()
    return labels
