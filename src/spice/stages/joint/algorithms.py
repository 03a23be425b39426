"""Semi-supervised algorithms: each is a loss of a batch, registered under a name (paper III-C).

The paper uses FixMatch and allows others. To add one, write a file with a subclass of `Algorithm`:

    @register("toy")
    class Toy(Algorithm):
        views = ("weak",)

        def loss(self, batch: Batch) -> Tensor: ...

Once the file is imported, `JointSettings(algorithm="toy")` trains with it, in the loop of `spice.stages.joint.train`.

Shapes: L labeled and U unlabeled images in a step, K clusters, S pixels on a side. The unlabeled images are drawn from
all images, as in the paper.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from spice.engine.device import autocast
from spice.engine.processes import ALONE, Processes
from spice.errors import UserError
from spice.settings import JointSettings

ViewName = Literal["weak", "strong"]


@dataclass
class Batch:
    """One step: the network, its moving average, and random views of the step's images."""

    network: nn.Module
    average: nn.Module  # in training mode
    labeled: Tensor  # (L, C, S, S) `Algorithm.labeled_view` of the labeled images
    labels: Tensor  # (L,)
    unlabeled: tuple[Tensor, ...]  # (U, C, S, S) each: `Algorithm.views` of the unlabeled images
    step: int  # from 0
    steps: int
    random: torch.Generator
    processes: Processes = ALONE
    confident: float = 0.0  # set by the loss: share of the unlabeled images with a pseudo-label in this step

    def logits(self, *views: Tensor, detach: int | None = None) -> list[Tensor]:
        """Logits of each set of views. The set at position `detach` only gives pseudo-labels and gets no gradient."""
        if detach is None or any(isinstance(part, _BatchNorm) and part.training for part in self.network.modules()):
            # One forward pass for all views, so that batch norm sees one batch, as in FixMatch.
            logits = self._forward(views)
        else:
            # Without batch statistics, views that only provide pseudo-labels need no backward pass.
            with torch.no_grad():
                labeling = self._forward([views[detach]])
            logits = self._forward([*views[:detach], *views[detach + 1 :]])
            logits[detach:detach] = labeling
        if detach is not None:
            logits[detach] = logits[detach].detach()
        return logits

    def _forward(self, views: tuple[Tensor, ...] | list[Tensor]) -> list[Tensor]:
        together = torch.cat(views)
        if together.ndim == 4:  # images and feature maps, not tokens: convolutions are fastest with channels last
            together = together.contiguous(memory_format=torch.channels_last)
        with autocast(together.device):
            logits = self.network(together).float()
        if not logits.isfinite().all():
            raise FloatingPointError("the network's output is no longer finite")
        return list(logits.split([len(view) for view in views]))


class Algorithm:
    """A semi-supervised algorithm. For each entry of `views`, a new random view of the unlabeled images is drawn."""

    views: ClassVar[tuple[ViewName, ...]]  # (): the algorithm uses labeled images only
    labeled_view: ClassVar[ViewName] = "weak"

    def __init__(self, settings: JointSettings, clusters: int) -> None:
        self.settings, self.clusters = settings, clusters

    def loss(self, batch: Batch) -> Tensor:
        """The total loss of a step, averaged over the batch."""
        raise NotImplementedError

    def state(self) -> dict[str, Tensor]:
        """The state that a checkpoint saves."""
        return {}

    def restore_(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved `state`."""


ALGORITHMS: dict[str, type[Algorithm]] = {}

AnyAlgorithm = TypeVar("AnyAlgorithm", bound=type[Algorithm])


def register(name: str) -> Callable[[AnyAlgorithm], AnyAlgorithm]:
    """Class decorator: make an algorithm available as `JointSettings(algorithm=name)`."""

    def add(algorithm: AnyAlgorithm) -> AnyAlgorithm:
        if name in ALGORITHMS:
            raise ValueError(f"an algorithm named {name!r} is already registered: {ALGORITHMS[name].__name__}")
        ALGORITHMS[name] = algorithm
        return algorithm

    return add


def find_algorithm(name: str) -> type[Algorithm]:
    """The algorithm registered as `name`."""
    if name not in ALGORITHMS:
        raise UserError(f"unknown algorithm {name!r}; choose one of {', '.join(sorted(ALGORITHMS))}")
    return ALGORITHMS[name]
