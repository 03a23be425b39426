"""Stage 1: train a feature model that maps two views of an image close together (paper III-A).

`train_features` is the whole stage. The losses are in `moco`, `simclr` and `byol`.
"""

import logging
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from spice.augment import Contrastive, Plain
from spice.data.batches import batches_of_training
from spice.data.images import Images
from spice.engine.checkpoints import Saved
from spice.engine.device import autocast, grad_scaler, module_to_device, to_device
from spice.engine.parallel import prefetch
from spice.engine.processes import ALONE, Processes
from spice.engine.run import Run
from spice.engine.schedules import set_learning_rate_, warm_cosine
from spice.errors import UserError
from spice.models.backbone import Backbone
from spice.models.networks import WhitenedPatchesNet, stem_for
from spice.models.weights import NetworkCard
from spice.randomness import seeded
from spice.settings import IMAGENET, IMAGENET_GRAY, FeatureSettings
from spice.stages.features.byol import BYOL
from spice.stages.features.health import Health, HealthMonitor
from spice.stages.features.moco import MoCo
from spice.stages.features.pretext import Pretext
from spice.stages.features.simclr import SimCLR
from spice.stages.features.whitening import sample_positions, whiten

log = logging.getLogger("spice")


class FeatureModel(NamedTuple):
    """The trained feature model and its health after each epoch.

    `save_network(path, model.network, model.card)` writes it as an encoder that `load_encoder(path)` reads.
    """

    network: Backbone
    card: NetworkCard
    health: tuple[Health, ...]


def train_features(images: Images, settings: FeatureSettings, run: Run) -> FeatureModel:
    """Train a feature model on `images`. If `run` has a folder, a stopped run resumes bit for bit.

    With several processes, each takes its share of every batch, and all return the same model.
    """
    processes = run.processes
    schedule = schedule_for(len(images), settings, processes)
    pretext = module_to_device(build_pretext(images, settings, schedule, run), run.device)
    processes.broadcast_(pretext)
    trainable = [parameter for parameter in pretext.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(
        trainable, lr=settings.learning_rate, momentum=settings.sgd_momentum, weight_decay=settings.weight_decay
    )
    # Training does not depend on whitening, which comes after it.
    identity = settings.model_dump(exclude={"whitening"}) | {"images": len(images), "processes": processes.count}
    checkpoints = run.checkpoints(identity)
    state = State(pretext, optimizer, grad_scaler(run.device), HealthMonitor(), [])

    start = state.restore_(checkpoints.load())
    started = time.monotonic()
    pretext.train()
    if processes.first:  # on a CPU, the first step may take a minute
        run.progress("features", start, schedule.steps)
    for step, first, second in prefetch(view_pairs(images, settings, schedule, run, start=start)):
        with autocast(run.device):
            outcome = pretext(first, second, step=step)
        loss = outcome.loss.item()
        _refuse_infinite(loss, step, settings)  # before it reaches the weights
        rate = settings.learning_rate * warm_cosine(step, schedule.steps, warmup=schedule.warmup)
        set_learning_rate_(optimizer, rate)
        optimizer.zero_grad(set_to_none=True)
        state.scaler.scale(outcome.loss).backward()
        processes.average_gradients_(trainable)
        state.scaler.step(optimizer)
        state.scaler.update()
        pretext.update_(outcome, step=step)

        done = step + 1
        state.monitor.update(outcome.features, outcome.first, outcome.second)
        if done % schedule.per_epoch == 0:
            state.health.append(state.monitor.compute())
        if processes.first:
            speed = (done - start) * schedule.batch / max(time.monotonic() - started, 1e-9)
            run.progress("features", done, schedule.steps, {"loss": loss, "images/s": speed})
            if done % schedule.per_epoch == 0:
                log.debug("features, epoch %d of %d: %s", len(state.health), schedule.epochs, state.health[-1])
        checkpoints.save_if_due(done, of=schedule.steps, state=state.state_dict)
    return _result(state, images, settings, run)


class Schedule(NamedTuple):
    """How long to train."""

    images: int
    batch: int  # over all processes
    epochs: int
    warmup: int  # steps

    @property
    def per_epoch(self) -> int:
        """Steps per epoch. An incomplete last batch is dropped."""
        return self.images // self.batch

    @property
    def steps(self) -> int:
        """The total number of steps."""
        return self.epochs * self.per_epoch


def schedule_for(images: int, settings: FeatureSettings, processes: Processes = ALONE) -> Schedule:
    """The schedule for a collection of this size. A collection smaller than a batch is one batch."""
    if images < 2 * processes.count:
        raise UserError(f"{images} images are too few to train on; each process needs a batch of at least two")
    batch = settings.batch if settings.batch <= images else images - images % processes.count
    processes.refuse_uneven(batch)
    schedule = Schedule(images, batch, settings.epochs, 0)
    return schedule._replace(warmup=min(round(settings.warmup * schedule.per_epoch), schedule.steps - 1))


def build_pretext(images: Images, settings: FeatureSettings, schedule: Schedule, run: Run) -> Pretext:
    """The network and its pretext task, randomly initialized."""
    with seeded(run.seed, "features", "start"):
        backbone = untrained_network(images, settings, run)
        if settings.method == "moco":
            return MoCo(backbone, settings, run, images=len(images), steps=schedule.steps)
        if settings.method == "simclr":
            return SimCLR(backbone, settings, processes=run.processes)
        return BYOL(backbone, settings, steps=schedule.steps)


def untrained_network(images: Images, settings: FeatureSettings, run: Run) -> Backbone:
    """The network with random weights. A layer that whitens patches is fitted to the images."""
    card = network_card(images, settings)
    backbone = card.build()
    if isinstance(backbone, WhitenedPatchesNet):
        size = settings.early_view_size or settings.view_size or images.size
        plain = Plain(settings.augment, size, card.normalization)
        backbone.prepare_(plain(images.take(sample_positions(images, 1000, run))))
    return backbone


def view_pairs(
    images: Images, settings: FeatureSettings, schedule: Schedule, run: Run, *, start: int = 0
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """For each step from `start` on: its number, and two random views (B, C, S, S) of its images.

    Views depend on (seed, step, position in the batch) alone.
    """
    size, normalization = settings.view_size or images.size, network_card(images, settings).normalization
    late = Contrastive(settings.augment, size, normalization)
    early = Contrastive(settings.augment, settings.early_view_size or size, normalization)
    early_steps = round(settings.early * schedule.steps)
    rows = torch.arange(run.processes.rank, schedule.batch, run.processes.count)
    for step, chosen in batches_of_training(
        len(images), schedule.batch, run, stage="features", epochs=schedule.epochs, first=start
    ):
        pixels = to_device(images.take(chosen), run.device)
        recipe = early if step < early_steps else late
        randoms = (run.generator("features", "view", view, step) for view in range(2))
        views = (recipe(pixels, random, rows=rows, of=schedule.batch) for random in randoms)
        first, second = (view.contiguous(memory_format=torch.channels_last) for view in views)
        yield step, first, second


class State(NamedTuple):
    """The state of the training, which a checkpoint saves."""

    pretext: Pretext
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    monitor: HealthMonitor
    health: list[Health]

    def state_dict(self) -> dict[str, object]:
        """Everything a checkpoint needs to resume the training."""
        return {
            "pretext": self.pretext.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "recent": list(self.monitor.recent),
            "health": [tuple(epoch) for epoch in self.health],
        }

    def restore_(self, saved: Saved | None) -> int:
        """Continue from a checkpoint, if there is one. Returns the number of finished steps."""
        if saved is None:
            return 0
        self.pretext.load_state_dict(saved.state["pretext"])
        self.optimizer.load_state_dict(saved.state["optimizer"])
        if saved.state.get("scaler"):  # empty unless the precision is float16
            self.scaler.load_state_dict(saved.state["scaler"])
        self.monitor.recent.extend(saved.state["recent"])
        self.health.extend(Health(*epoch) for epoch in saved.state["health"])
        log.info("features: resuming at step %d", saved.step)
        return saved.step


def network_card(images: Images, settings: FeatureSettings) -> NetworkCard:
    """The network to train, and its input. By default, a ResNet gets the paper's stem for the image size."""
    stem = settings.stem or (stem_for(images.size) if settings.network.startswith("resnet") else None)
    return NetworkCard(
        network=settings.network,
        stem=stem,
        width=settings.width,
        channels=images.channels,
        size=images.size,
        normalization=IMAGENET_GRAY if images.channels == 1 else IMAGENET,
    )


def _refuse_infinite(loss: float, step: int, settings: FeatureSettings) -> None:
    if not math.isfinite(loss):
        raise UserError(
            f"the loss of stage 1 became {loss} at step {step}: lower the learning rate "
            f"(now {settings.learning_rate:g}) or add warmup, then start again with a new --out"
        )


def _result(state: State, images: Images, settings: FeatureSettings, run: Run) -> FeatureModel:
    """The trained network, the same in all processes, with partial whitening if the settings ask for it."""
    network, card = state.pretext.network, network_card(images, settings)
    if settings.whitening:
        network = whiten(network, images, settings, card.normalization, run)
        card = card.model_copy(update={"partial_whitening": True})
    run.processes.broadcast_(network)  # batch-norm statistics differ between processes
    return FeatureModel(network.eval(), card, tuple(state.health))
