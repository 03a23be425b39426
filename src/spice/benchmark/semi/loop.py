"""Training with a few true labels and many images without: one loop, in which each algorithm is a loss (Table V).

Optimizer, schedule and moving average are FixMatch's for all of them, so that rows differ by their losses alone.

Shapes: L labeled and U other images in a step, K classes, S pixels on a side.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from spice.augment import Strong, Weak
from spice.core import ema_update_
from spice.engine.checkpoints import Checkpoints
from spice.engine.schedules import set_learning_rate_, seven_sixteenths_cosine
from spice.errors import UserError
from spice.progress import Progress, silent
from spice.randomness import generator
from spice.settings import JointSettings, Normalization
from spice.stages.joint.draws import Labeled
from spice.stages.joint.train import Images, View, momentum


class Batch(NamedTuple):
    """What a loss is given: the network, its moving average, and views of the images of a step."""

    network: nn.Module
    average: nn.Module
    labeled: Tensor  # (L, C, S, S) weak views
    labels: Tensor  # (L,)
    others: tuple[Tensor, ...]  # (U, C, S, S) each, the views that the algorithm asks for
    clusters: int  # K
    step: int  # from 0
    done: float  # share of training that is done
    random: torch.Generator


class Algorithm(Protocol):
    """A semi-supervised algorithm."""

    views: tuple[str, ...]  # of the others: "weak" or "strong", each drawn anew

    def loss(self, batch: Batch) -> Tensor:
        """The whole loss of a step."""


class Training(NamedTuple):
    """The network while it learns."""

    network: nn.Module
    average: nn.Module
    optimizer: torch.optim.Optimizer


def train(
    network: nn.Module,
    images: Images,
    labeled: Labeled,
    algorithm: Algorithm,
    settings: JointSettings,
    *,
    clusters: int,
    view: Callable[[str], View],
    seed: int,
    folder: Path | None = None,
    progress: Progress = silent,
) -> nn.Module:
    """The moving average of the network after `settings.steps` steps down the algorithm's loss, in eval mode.

    Args:
        network: images -> (B, K) logits; trained in place.
        labeled: the images whose true labels are given.
        view: the recipe of a kind of view.
    """
    training = _training(network, settings)
    identity = settings.model_dump(mode="json") | {"seed": seed, "algorithm": type(algorithm).__name__}
    checkpoints = Checkpoints(folder, identity=identity | {"labels": labeled.cluster.tolist()})
    draw = _Draws(images, labeled, settings, algorithm=algorithm, view=view, seed=seed)
    for step in range(_restore_(training, checkpoints), settings.steps):
        batch = draw.batch(training, step, clusters)
        loss = algorithm.loss(batch)
        if not loss.isfinite():
            raise UserError(f"the loss became {loss.item()} at step {step}: lower the learning rate")
        rate = settings.learning_rate * seven_sixteenths_cosine(step, settings.steps)
        set_learning_rate_(training.optimizer, rate)
        training.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        training.optimizer.step()
        ema_update_(training.average, network, momentum=momentum(settings, settings.steps))
        progress("labeled training", step + 1, settings.steps, {"loss": loss.item()})
        if checkpoints.due():
            _save(training, checkpoints, step + 1)
    for old, new in zip(training.average.buffers(), network.buffers(), strict=True):
        old.copy_(new)  # the newest batch-norm statistics, as in joint training
    return training.average.eval()


def logits_of(batch: Batch, *views: Tensor) -> tuple[Tensor, ...]:
    """Logits of several sets of views in one pass, so that batch norm sees one batch."""
    together = torch.cat(views).contiguous(memory_format=torch.channels_last)
    parts: tuple[Tensor, ...] = batch.network(together).split([len(part) for part in views])
    return parts


def recipes(settings: JointSettings, *, size: int, normalization: Normalization) -> Callable[[str], View]:
    """Weak and strong views by name."""
    made: dict[str, View] = {
        "weak": Weak(settings.augment, size=size, normalization=normalization),
        "strong": Strong(settings.augment, size=size, normalization=normalization),
    }
    return made.__getitem__


class _Draws:
    """Images and views of a step: a function of (seed, step) alone."""

    def __init__(
        self,
        images: Images,
        labeled: Labeled,
        settings: JointSettings,
        *,
        algorithm: Algorithm,
        view: Callable[[str], View],
        seed: int,
    ) -> None:
        self.images, self.labeled, self.settings = images, labeled, settings
        self.algorithm, self.view, self.seed = algorithm, view, seed

    def batch(self, training: Training, step: int, clusters: int) -> Batch:
        device = next(training.network.parameters()).device
        random = generator(self.seed, "semi", "step", step)
        chosen = torch.randint(len(self.labeled.image), (self.settings.labeled,), generator=random)
        known = self.images.take(self.labeled.image[chosen]).to(device)
        others: tuple[Tensor, ...] = ()
        if self.algorithm.views:
            drawn = torch.randint(len(self.images), (self.settings.unlabeled,), generator=random)
            pixels = self.images.take(drawn).to(device)
            others = tuple(self.view(kind)(pixels, random) for kind in self.algorithm.views)
        return Batch(
            training.network,
            training.average,
            self.view("weak")(known, random),
            self.labeled.cluster[chosen].to(device),
            others,
            clusters,
            step,
            step / self.settings.steps,
            random,
        )


def _training(network: nn.Module, settings: JointSettings) -> Training:
    # Biases and the scales of batch norm are not decayed, as in FixMatch.
    decayed = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in network.parameters() if parameter.ndim <= 1]
    optimizer = torch.optim.SGD(
        [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}],
        lr=settings.learning_rate,
        momentum=settings.sgd_momentum,
        nesterov=settings.sgd_momentum > 0,
    )
    return Training(network.train(), copy.deepcopy(network).requires_grad_(False), optimizer)


def _save(training: Training, checkpoints: Checkpoints, step: int) -> None:
    checkpoints.save(step, {name: part.state_dict() for name, part in training._asdict().items()})


def _restore_(training: Training, checkpoints: Checkpoints) -> int:
    saved = checkpoints.load()
    if saved is None:
        return 0
    for name, part in training._asdict().items():
        part.load_state_dict(saved.state[name])
    return saved.step
