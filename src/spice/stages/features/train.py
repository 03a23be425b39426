"""The first stage: a feature model that maps two views of an image close together (paper III-A).

Read it top to bottom: `train_features` is the whole of it. What a step computes is in `moco`, `simclr` and `byol`.
"""

import itertools
import logging
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from spice.augment import Contrastive, Plain, Recipe
from spice.data.batches import Batch, batches
from spice.engine.ahead import ahead
from spice.engine.checkpoints import Checkpoints
from spice.engine.device import placed
from spice.engine.processes import ALONE, Processes
from spice.engine.schedules import set_learning_rate_, warm_cosine
from spice.errors import UserError
from spice.models.backbone import Backbone, evaluating
from spice.models.evened import Evened
from spice.models.resnet import stem_for
from spice.models.weights import NetworkCard
from spice.models.whitened import WhitenedNet
from spice.progress import Progress, silent
from spice.randomness import generator, seeded
from spice.settings import IMAGENET, IMAGENET_GRAY, FeatureSettings
from spice.stages.features.byol import BYOL
from spice.stages.features.health import Examination, Health
from spice.stages.features.moco import MoCo
from spice.stages.features.pretext import Pretext
from spice.stages.features.simclr import SimCLR
from spice.stages.features.whitening import found_share

log = logging.getLogger("spice")

CPU = torch.device("cpu")


class Images(Protocol):
    """What the stage needs of an image store."""

    size: int
    channels: int

    def __len__(self) -> int: ...
    def take(self, positions: Tensor) -> Tensor:
        """uint8 (B, C, S, S)."""


class FeatureModel(NamedTuple):
    """The trained feature model, and how each epoch went.

    `save_network(path, model.network, model.card)` makes it an encoder that `load_encoder(path)` knows.
    """

    network: Backbone
    card: NetworkCard
    health: tuple[Health, ...]


def train_features(
    images: Images,
    settings: FeatureSettings,
    *,
    seed: int,
    folder: Path | None = None,
    device: torch.device = CPU,
    processes: Processes = ALONE,
    checkpoint_seconds: float = 60.0,
    progress: Progress = silent,
) -> FeatureModel:
    """Train a feature model on `images`; with a `folder`, a run that was stopped goes on bit for bit.

    Under several processes each takes its share of every batch, and all return the same model.
    """
    schedule = plan(len(images), settings, processes)
    pretext = placed(build(images, settings, schedule, seed=seed, processes=processes), device)
    processes.broadcast_(pretext)
    trained = [parameter for parameter in pretext.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(
        trained, lr=settings.learning_rate, momentum=settings.sgd_momentum, weight_decay=settings.weight_decay
    )
    # Features are evened after the training, which is the same without.
    identity = settings.model_dump(exclude={"evened"})
    identity |= {"seed": seed, "images": len(images), "processes": processes.count}
    checkpoints = Checkpoints(folder, identity=identity, every_seconds=checkpoint_seconds)
    views = Views(images, settings, schedule, seed=seed, device=device, processes=processes)
    run = Run(pretext, optimizer, Examination(), [])

    start = run.restore_(checkpoints, processes)
    clock = Clock(start, schedule.batch)
    pretext.train()
    batches = schedule.batches(start, seed=seed, processes=processes)
    for step, (first, second) in ahead((step, views(batch, step)) for step, batch in batches):
        outcome = pretext(first, second, step=step)
        loss = finite(outcome.loss, step, settings)

        set_learning_rate_(optimizer, settings.learning_rate * schedule.rate(step))
        optimizer.zero_grad(set_to_none=True)
        outcome.loss.backward()
        processes.average_gradients_(trained)
        optimizer.step()
        pretext.update_(outcome, step=step)

        done = step + 1
        run.examination.see(outcome.features, outcome.first, outcome.second)
        if done % schedule.per_epoch == 0:
            run.health.append(run.examination.result())
        if processes.first:
            run.tell(progress, schedule, done, {"loss": loss, "images/s": clock.images_per_second(done)})
            if checkpoints.due() or done == schedule.steps:
                checkpoints.save(done, run.state())
    network, card = pretext.network, card_of(images, settings)
    if settings.evened:
        network, card = evened(network, images, settings, seed=seed), card.model_copy(update={"evened": True})
    processes.broadcast_(network)  # the first one's batch-norm statistics, for all
    return FeatureModel(network.eval(), card, tuple(run.health))


class Plan(NamedTuple):
    """How long to train."""

    images: int
    batch: int  # over all processes
    epochs: int
    warmup: int  # steps

    @property
    def per_epoch(self) -> int:
        """Steps: the last batch is left out where it is not full."""
        return self.images // self.batch

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        return self.epochs * self.per_epoch

    def rate(self, step: int) -> float:
        """The learning rate as a share of the highest."""
        return warm_cosine(step, self.steps, warmup=self.warmup)

    def batches(self, start: int, *, seed: int, processes: Processes) -> Iterator[tuple[int, Batch]]:
        """Step number and images, from step `start` on."""
        for epoch in range(start // self.per_epoch, self.epochs):
            order = batches(
                self.images,
                self.batch,
                seed=seed,
                stage="features",
                epoch=epoch,
                rank=processes.rank,
                processes=processes.count,
            )
            skipped = max(0, start - epoch * self.per_epoch)
            for batch in itertools.islice(order, skipped, None):
                yield epoch * self.per_epoch + batch.number, batch


def plan(images: int, settings: FeatureSettings, processes: Processes = ALONE) -> Plan:
    """The schedule for a collection of this size; a collection smaller than a batch is one batch."""
    if images < 2 * processes.count:
        raise UserError(f"{images} images are too few to learn from: each process needs at least two in a batch")
    batch = settings.batch if settings.batch <= images else images - images % processes.count
    processes.share(batch)
    schedule = Plan(images, batch, settings.epochs, 0)
    return schedule._replace(warmup=min(round(settings.warmup * schedule.per_epoch), schedule.steps - 1))


def build(images: Images, settings: FeatureSettings, schedule: Plan, *, seed: int, processes: Processes) -> Pretext:
    """The network and the task it learns from, at their random start."""
    with seeded(seed, "features", "start"):
        backbone = card_of(images, settings).build()
        if isinstance(backbone, WhitenedNet):
            size = settings.early_view_size or settings.view_size or images.size
            plain = Plain(settings.augment, size, card_of(images, settings).normalization)
            backbone.prepare_(plain(images.take(some_positions(images, 1000, seed=seed))))
        if settings.method == "moco":
            return MoCo(backbone, settings, images=len(images), steps=schedule.steps, seed=seed, processes=processes)
        if settings.method == "simclr":
            return SimCLR(backbone, settings, processes=processes)
        return BYOL(backbone, settings, steps=schedule.steps)


@torch.no_grad()
def evened(network: Backbone, images: Images, settings: FeatureSettings, *, seed: int) -> Evened:
    """The trained network with a layer that evens its features, computed from ten thousand images."""
    device = next(network.parameters()).device
    positions = some_positions(images, 10_000, seed=seed)
    normalization = card_of(images, settings).normalization

    def encoded(view: Recipe, positions: Tensor, name: str) -> Tensor:
        drawn = generator(seed, "features", "evened", name)
        parts = torch.split(positions, 500)
        return torch.cat([network(view(images.take(part).to(device), drawn)) for part in parts])  # (n, D)

    result = placed(Evened(network), device)
    with evaluating(network):
        plain = encoded(Plain(settings.augment, images.size, normalization), positions, "plain")
        if settings.evened == "found":
            view = Contrastive(settings.augment, settings.view_size or images.size, normalization)
            share = found_share(result, plain, *(encoded(view, positions[:2000], name) for name in ("first", "second")))
        else:
            share = settings.evened
    result.even_(plain, share)
    return result


def some_positions(images: Images, count: int, *, seed: int) -> Tensor:
    """Where to find random images, at most `count`."""
    return torch.randperm(len(images), generator=generator(seed, "features", "some"))[:count]


class Views:
    """Two random views of a batch; which ones depends on (seed, step, place in the batch) alone."""

    def __init__(
        self,
        images: Images,
        settings: FeatureSettings,
        schedule: Plan,
        *,
        seed: int,
        device: torch.device,
        processes: Processes,
    ) -> None:
        self.images, self.seed, self.device, self.batch = images, seed, device, schedule.batch
        late = settings.view_size or images.size
        self.late, self.early = (
            Contrastive(settings.augment, size, card_of(images, settings).normalization)
            for size in (late, settings.early_view_size or late)
        )
        self.early_steps = round(settings.early * schedule.steps)
        self.rows = torch.arange(processes.rank, schedule.batch, processes.count)

    def __call__(self, batch: Batch, step: int) -> tuple[Tensor, Tensor]:
        """(B, C, S, S) twice."""
        taken = self.images.take(batch.images).to(self.device)
        view = self.early if step < self.early_steps else self.late
        first, second = (
            view(taken, generator(self.seed, "features", "view", which, step), rows=self.rows, of=self.batch)
            for which in range(2)
        )
        layout = torch.channels_last
        return first.contiguous(memory_format=layout), second.contiguous(memory_format=layout)


def finite(loss: Tensor, step: int, settings: FeatureSettings) -> float:
    """The loss; or an end to the run where it is not a number, before it spoils the weights."""
    value = loss.item()
    if not math.isfinite(value):
        raise UserError(
            f"the loss of stage 1 became {value} at step {step}: lower the learning rate "
            f"(now {settings.learning_rate:g}) or add warmup, and start again in a new folder"
        )
    return value


class Clock:
    """Images per second since this process took up the work."""

    def __init__(self, start: int, batch: int) -> None:
        self._start, self._batch, self._since = start, batch, time.monotonic()

    def images_per_second(self, done: int) -> float:
        """Over all processes."""
        return (done - self._start) * self._batch / max(time.monotonic() - self._since, 1e-9)


class Run(NamedTuple):
    """All that the next step depends on, and what is told of the steps before."""

    pretext: Pretext
    optimizer: torch.optim.Optimizer
    examination: Examination
    health: list[Health]  # one per finished epoch

    def state(self) -> dict[str, object]:
        """For a checkpoint."""
        return {
            "pretext": self.pretext.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "examination": self.examination.state_dict(),
            "health": [tuple(line) for line in self.health],
        }

    def restore_(self, checkpoints: Checkpoints, processes: Processes) -> int:
        """Go back to where a stopped run was; the number of steps it had done."""
        saved = checkpoints.load()
        step = 0 if saved is None else saved.step
        if not processes.agree(step):
            raise UserError(f"process {processes.rank} finds step {step} in {checkpoints.folder}, others another one")
        if saved is not None:
            self.pretext.load_state_dict(saved.state["pretext"])
            self.optimizer.load_state_dict(saved.state["optimizer"])
            self.examination.load_state_dict(saved.state["examination"])
            self.health.extend(Health(*line) for line in saved.state["health"])
            log.info("features: going on from step %d", step)
        return step

    def tell(self, progress: Progress, schedule: Plan, done: int, figures: dict[str, float]) -> None:
        """Every step to `progress`, every epoch to the log."""
        progress("features", done, schedule.steps, figures)
        if done % schedule.per_epoch == 0:
            log.info("features, epoch %d of %d: %s", len(self.health), schedule.epochs, self.health[-1])


def card_of(images: Images, settings: FeatureSettings) -> NetworkCard:
    """Which network it is, and what images it wants. A ResNet gets the paper's stem for the size, if not told."""
    stem = settings.stem or (stem_for(images.size) if settings.network.startswith("resnet") else None)
    return NetworkCard(
        network=settings.network,
        stem=stem,
        width=settings.width,
        channels=images.channels,
        size=images.size,
        normalization=IMAGENET_GRAY if images.channels == 1 else IMAGENET,
    )
