"""MoCo-v2: tell the other view of an image from the keys of earlier batches (paper III-A).

Shapes: B images of this process, P projection width, Q keys in the queue.
"""

import copy
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.core import ema_update_, enqueue_, info_nce
from spice.engine.processes import ALONE, Processes
from spice.errors import SpiceWarning
from spice.models.backbone import Backbone
from spice.models.projection import Projection
from spice.randomness import generator
from spice.settings import FeatureSettings
from spice.stages.features.pretext import Outcome, Pretext, slowest_momentum

LONGEST_QUEUE = 65_536


class ShortQueueWarning(SpiceWarning):
    """The queue asked for does not fit the collection."""


class MoCo(Pretext):
    """The query branch, its moving average (the key branch), and a queue of keys."""

    queue: Tensor  # (Q, P)
    position: Tensor  # () where the oldest key is

    def __init__(
        self,
        network: Backbone,
        settings: FeatureSettings,
        *,
        images: int,
        steps: int,
        seed: int,
        processes: Processes = ALONE,
    ) -> None:
        super().__init__()
        self.network = network
        self.projection = Projection(network.features, network.features, settings.projection)
        self.key_network, self.key_projection = copy.deepcopy(network), copy.deepcopy(self.projection)
        for parameter in (*self.key_network.parameters(), *self.key_projection.parameters()):
            parameter.requires_grad_(False)
        # Filled at random, so that the first batches have negatives.
        length = queue_length(images, settings)
        keys = torch.randn(length, settings.projection, generator=generator(seed, "features", "queue"))
        self.register_buffer("queue", F.normalize(keys, dim=1))
        self.register_buffer("position", torch.tensor(0))
        self.temperature = settings.temperature
        self.momentum = slowest_momentum(steps) if settings.momentum is None else settings.momentum
        self.seed, self.processes = seed, processes

    def forward(self, first: Tensor, second: Tensor, *, step: int) -> Outcome:
        """Query from the first view, key from the second."""
        # Keys first: what their pass needs of memory is free again when the query's activations, which stay, are made.
        with torch.no_grad():
            self._follow()
            key = self._keys(second, step)  # (B, P)
        features = self.network(first)  # (B, D)
        query = self.projection(features)  # (B, P)
        loss = info_nce(query, key, self.queue, temperature=self.temperature)
        return Outcome(loss, features, query, key)

    @torch.no_grad()
    def update_(self, outcome: Outcome, *, step: int) -> None:  # noqa: ARG002
        """The keys of all processes enter the queue, only now: an image is no negative of itself."""
        keys = self.processes.gather(outcome.second)
        self.position.fill_(enqueue_(self.queue, keys, int(self.position)))

    def _follow(self) -> None:
        """The key branch moves towards the query branch; its batch-norm statistics stay its own."""
        ema_update_(self.key_network, self.network, momentum=self.momentum)
        ema_update_(self.key_projection, self.projection, momentum=self.momentum)

    def _keys(self, views: Tensor, step: int) -> Tensor:
        """The keys of this process's images, each computed by a random process.

        Query and key of an image would otherwise be normalized together with the same neighbors, and could be told
        by them ("shuffling BN" of MoCo). One process has one batch of neighbors, and nothing to shuffle.
        """
        if self.processes.count == 1:
            return self._projected(views)
        rank, count = self.processes.rank, self.processes.count
        everyone = self.processes.gather(views)  # (count * B, C, S, S)
        order = torch.randperm(len(everyone), generator=generator(self.seed, "features", "shuffle", step))
        keys = self._projected(everyone[order[rank::count]])
        return self.processes.gather(keys)[order.argsort()][rank::count]

    def _projected(self, views: Tensor) -> Tensor:
        keys: Tensor = self.key_projection(self.key_network(views))
        return keys


def queue_length(images: int, settings: FeatureSettings) -> int:
    """The queue's length: a quarter of the collection and at most 65,536, in whole batches, if not given.

    A quarter is what the authors give CIFAR-10 (12,800 of 50,000). With a longer one, more and more queries would find
    an earlier key of their own image among the negatives; with one as long as the collection, all of them.
    """
    batch = min(settings.batch, images)
    if settings.queue is None:
        return max(batch, min(LONGEST_QUEUE, images // 4) // batch * batch)
    if settings.queue < images:
        return settings.queue
    length = max(batch, (images - 1) // batch * batch)
    warnings.warn(
        f"a queue of {settings.queue} keys would hold every one of the {images} images: it is cut to {length}",
        ShortQueueWarning,
        stacklevel=2,
    )
    return length
