"""The training loop of all rivals that train a network on images. A rival is an `Objective`: a loss over views.

Shapes: N images, B of them in a batch, C channels, S pixels on a side, D feature width, K clusters.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from spice.augment import Contrastive, Plain, Strong, Weak
from spice.augment.recipes import Recipe
from spice.benchmark.rivals.classic import Labels
from spice.data.batches import batches_of_training
from spice.data.images import Images
from spice.engine.device import autocast, grad_scaler, module_to_device, to_device
from spice.engine.run import Run
from spice.engine.schedules import cosine, set_learning_rate_
from spice.errors import UserError
from spice.models.backbone import Backbone
from spice.settings import AugmentSettings, Normalization

ViewName = Literal["plain", "weak", "strong", "contrastive"]
RECIPES: dict[ViewName, Callable[[AugmentSettings, int, Normalization], Recipe]] = {
    "plain": Plain,
    "weak": Weak,
    "strong": Strong,
    "contrastive": Contrastive,
}
CHUNK = 256


class Schedule(NamedTuple):
    """How long to train, and how fast."""

    epochs: int
    batch: int
    learning_rate: float
    weight_decay: float = 0.0
    momentum: float | None = None  # of SGD; None: Adam
    nesterov: bool = False
    cosine: bool = False  # the learning rate falls to 0 along a cosine, changing every epoch
    drops: tuple[float, ...] = ()  # shares of the epochs after which the learning rate is divided by 10

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch."""
        dropped = sum(epoch >= share * self.epochs for share in self.drops)
        return self.learning_rate * (cosine(epoch, self.epochs) if self.cosine else 0.1**dropped)


class Epoch(NamedTuple):
    """The current epoch."""

    number: int  # from 0
    of: int

    @property
    def done(self) -> float:
        """The share of epochs that are finished."""
        return self.number / self.of


class Start(NamedTuple):
    """What a rival starts from."""

    backbone: Backbone  # untrained, or from stage 1
    clusters: int
    features: Tensor  # of stage 1, (N, D); rivals that train from scratch use only N
    seed: int  # of the run

    @property
    def images(self) -> int:
        """N."""
        return len(self.features)


class Pictures(NamedTuple):
    """Images, and how to make a network's input from them."""

    images: Images
    augment: AugmentSettings
    size: int
    normalization: Normalization

    def view(self, name: ViewName, positions: Tensor, random: torch.Generator, device: torch.device) -> Tensor:
        """One view of each image: (B,) -> (B, C, S, S)."""
        recipe = RECIPES[name](self.augment, self.size, self.normalization)
        return recipe(to_device(self.images.take(positions), device), random)

    @torch.no_grad()
    def outputs(self, network: Callable[[Tensor], Tensor], device: torch.device) -> Tensor:
        """The output of a network for every plain image, (N, ...), on the CPU."""
        parts = torch.arange(len(self.images)).split(CHUNK)  # type: ignore[no-untyped-call]
        random = torch.Generator()
        return torch.cat([network(self.view("plain", part, random, device)).cpu() for part in parts])

    def labels(self, network: Callable[[Tensor], Tensor], device: torch.device) -> Labels:
        """The most probable cluster of every plain image, (N,)."""
        labels: Labels = self.outputs(network, device).argmax(dim=1).numpy()
        return labels


class Seen(NamedTuple):
    """The images of a step."""

    images: Tensor  # (B,) positions in the collection
    views: list[Tensor]  # one for each of `Objective.views`, (B, C, S, S)
    shown: Sequence[Tensor]  # the positions of the images in each view, (B,)
    epoch: Epoch
    random: torch.Generator


class Objective(nn.Module):
    """The network and loss of a rival. All state is in parameters and buffers."""

    views: ClassVar[tuple[ViewName, ...]]
    published: ClassVar[Schedule]

    @classmethod
    def of(cls, start: Start) -> Self:
        """The rival before training."""
        return cls(start)

    def shown(self, images: Tensor, random: torch.Generator) -> Sequence[Tensor]:  # noqa: ARG002
        """The images (B,) of each view: those of the batch, unless a rival adds others."""
        return (images,) * len(self.views)

    def begin_(self, epoch: Epoch, pictures: Pictures, device: torch.device) -> bool:  # noqa: ARG002
        """Called before every epoch. Returns whether to train on."""
        return True

    def loss(self, seen: Seen) -> Tensor | None:
        """The loss of a step; None if there is nothing to learn from it."""
        raise NotImplementedError

    def update_(self, seen: Seen) -> None:
        """Called after every step."""


def train(objective: Objective, pictures: Pictures, schedule: Schedule, run: Run) -> None:
    """Minimize the objective in place, and leave it in eval mode. If `run` has a folder, a stopped training resumes."""
    name, count = type(objective).__name__, len(pictures.images)
    module_to_device(objective.train(), run.device)
    optimizer, scaler = _optimizer(objective, schedule), grad_scaler(run.device)
    batch = min(schedule.batch, count)
    per_epoch = count // batch
    steps = schedule.epochs * per_epoch
    state: dict[str, nn.Module | torch.optim.Optimizer | torch.amp.GradScaler]
    state = {"objective": objective, "optimizer": optimizer, "scaler": scaler}
    checkpoints, start = run.checkpoints({"objective": name, "images": count} | schedule._asdict()), 0
    if (saved := checkpoints.load()) is not None:
        start = saved.step
        for part, values in saved.state.items():
            if values:  # the scaler's are empty unless the precision is float16
                state[part].load_state_dict(values)
    for step, images in batches_of_training(count, batch, run, stage=name, epochs=schedule.epochs, first=start):
        epoch = Epoch(step // per_epoch, schedule.epochs)
        if step % per_epoch == 0 and not objective.begin_(epoch, pictures, run.device):
            break
        set_learning_rate_(optimizer, schedule.rate(epoch.number))
        seen = _seen(objective, pictures, images, epoch, run.generator(name, step))
        with autocast(run.device):
            loss = objective.loss(seen)
        if loss is not None:
            if not loss.isfinite():
                raise UserError(f"the loss of {name} is not finite at step {step}; lower its learning rate")
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            scaler.step(optimizer)
            scaler.update()
        objective.update_(seen)
        run.progress(name, step + 1, steps)
        checkpoints.save_if_due(
            step + 1, of=steps, state=lambda: {name: part.state_dict() for name, part in state.items()}
        )
    objective.eval()


def _seen(objective: Objective, pictures: Pictures, images: Tensor, epoch: Epoch, random: torch.Generator) -> Seen:
    device, shown = next(objective.parameters()).device, objective.shown(images, random)
    views = [
        pictures.view(name, some, random, device).contiguous(memory_format=torch.channels_last)
        for name, some in zip(objective.views, shown, strict=True)
    ]
    return Seen(images, views, shown, epoch, random)


def _optimizer(objective: Objective, schedule: Schedule) -> torch.optim.Optimizer:
    trained = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    rate, decay, momentum = schedule.learning_rate, schedule.weight_decay, schedule.momentum
    if momentum is None:
        return torch.optim.Adam(trained, lr=rate, weight_decay=decay)
    return torch.optim.SGD(trained, lr=rate, momentum=momentum, weight_decay=decay, nesterov=schedule.nesterov)
