"""MoCo-v2: distinguish the other view of an image from a queue of keys of earlier batches (paper III-A).

Shapes: B images of this process, P projection width, Q keys in the queue.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core import ema_update_, enqueue_, info_nce
from spice.engine.run import Run
from spice.errors import SpiceWarning, warn_user
from spice.models.backbone import Backbone
from spice.settings import FeatureSettings
from spice.stages.features.pretext import Outcome, Pretext, Projection, default_momentum

MAX_QUEUE = 65_536


class ShortQueueWarning(SpiceWarning):
    """The queue is too long for the collection."""


class MoCo(Pretext):
    """The query branch, its moving average (the key branch), and a queue of keys."""

    queue: Tensor  # (Q, P)
    position: Tensor  # () of the oldest key

    def __init__(self, network: Backbone, settings: FeatureSettings, run: Run, *, images: int, steps: int) -> None:
        super().__init__()
        self.network = network
        self.projection = Projection(network.features, network.features, settings.projection)
        self.key_network = copy.deepcopy(network).requires_grad_(False)
        self.key_projection = copy.deepcopy(self.projection).requires_grad_(False)
        # Random keys, so that the first batches have negatives.
        shape = queue_length(images, settings), settings.projection
        keys = torch.randn(shape, generator=run.generator("features", "queue"))
        self.register_buffer("queue", F.normalize(keys, dim=1))
        self.register_buffer("position", torch.tensor(0))
        self.temperature = settings.temperature
        self.momentum = default_momentum(steps) if settings.momentum is None else settings.momentum
        self.run = run

    def forward(self, first: Tensor, second: Tensor, *, step: int) -> Outcome:
        """The InfoNCE loss of queries from the first view and keys from the second."""
        # Keys first: the memory of their pass is freed before the activations of the query are allocated.
        with torch.no_grad():
            # Parameters only: the key branch keeps its own batch-norm statistics.
            ema_update_(self.key_network, self.network, momentum=self.momentum)
            ema_update_(self.key_projection, self.projection, momentum=self.momentum)
            key = self._keys(second, step)  # (B, P)
        features = self.network(first)  # (B, D)
        query = self.projection(features)  # (B, P)
        loss = info_nce(query, key, self.queue, temperature=self.temperature)
        return Outcome(loss, features, query, key)

    @torch.no_grad()
    def update_(self, outcome: Outcome, *, step: int) -> None:  # noqa: ARG002
        """Add the keys of all processes to the queue, after the step, so that no image is its own negative."""
        keys = self.run.processes.gather(outcome.second)
        self.position.fill_(enqueue_(self.queue, keys, int(self.position)))

    def _keys(self, views: Tensor, step: int) -> Tensor:
        """The keys of this process's images, each computed by a random process.

        Otherwise batch norm would normalize query and key of an image together with the same other images, by which
        they could be matched ("shuffling BN" of MoCo). With one process there is nothing to shuffle.
        """
        processes = self.run.processes
        if processes.count == 1:
            return self._projected(views)
        everyone = processes.gather(views)  # (count * B, C, S, S)
        order = torch.randperm(len(everyone), generator=self.run.generator("features", "shuffle", step)).to(
            views.device
        )
        keys = self._projected(everyone[order[processes.rank :: processes.count]])
        return processes.gather(keys)[order.argsort()][processes.rank :: processes.count]

    def _projected(self, views: Tensor) -> Tensor:
        keys: Tensor = self.key_projection(self.key_network(views))
        return keys


def queue_length(images: int, settings: FeatureSettings) -> int:
    """The length of the queue. By default a quarter of the collection in whole batches, at most 65,536.

    The authors use a quarter for CIFAR-10 (12,800 of 50,000). The longer the queue, the more queries have an earlier
    key of their own image among the negatives. If it is as long as the collection, all of them do.
    """
    batch = min(settings.batch, images)
    if settings.queue is None:
        return max(batch, min(MAX_QUEUE, images // 4) // batch * batch)
    if settings.queue < images:
        return settings.queue
    length = max(batch, (images - 1) // batch * batch)
    warn_user(
        f"a queue of {settings.queue} keys is too long for {images} images; shortened to {length}",
        ShortQueueWarning,
    )
    return length
