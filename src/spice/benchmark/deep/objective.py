"""One training loop for every rival that trains a network on images: a rival is an `Objective`, a loss over views.

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
    cosine: bool = False  # whether the learning rate falls to 0 along a cosine, from epoch to epoch
    drops: tuple[float, ...] = ()  # shares of the epochs after which the learning rate is divided by 10

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch."""
        dropped = sum(epoch >= share * self.epochs for share in self.drops)
        return self.learning_rate * (cosine(epoch, self.epochs) if self.cosine else 0.1**dropped)


class Epoch(NamedTuple):
    """Which epoch it is."""

    number: int  # from 0 on
    of: int

    @property
    def done(self) -> float:
        """The share of the epochs before it."""
        return self.number / self.of


class Start(NamedTuple):
    """What a rival is built from."""

    backbone: Backbone  # untrained, or that of stage 1
    clusters: int
    features: Tensor  # (N, D) of stage 1; rivals that train from scratch use only N
    seed: int  # of the run; it also decides the weights that a rival draws by itself

    @property
    def images(self) -> int:
        """N."""
        return len(self.features)


class Pictures(NamedTuple):
    """Images, and how a network is shown them."""

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
        """What a network says of every plain image, (N, ...), on the CPU."""
        parts = torch.arange(len(self.images)).split(CHUNK)  # type: ignore[no-untyped-call]
        random = torch.Generator()
        return torch.cat([network(self.view("plain", part, random, device)).cpu() for part in parts])

    def labels(self, network: Callable[[Tensor], Tensor], device: torch.device) -> Labels:
        """The cluster that a network finds most likely for every plain image, (N,)."""
        labels: Labels = self.outputs(network, device).argmax(dim=1).numpy()
        return labels


class Seen(NamedTuple):
    """What a step shows."""

    images: Tensor  # (B,) positions in the collection
    views: list[Tensor]  # (B, C, S, S) each: `Objective.views`
    shown: Sequence[Tensor]  # (B,) each: the images of these views
    epoch: Epoch
    random: torch.Generator


class Objective(nn.Module):
    """A rival: its network and its loss. All its state is in parameters and buffers."""

    views: ClassVar[tuple[ViewName, ...]]
    published: ClassVar[Schedule]

    @classmethod
    def of(cls, start: Start) -> Self:
        """The rival before training; here for those that take no more than this."""
        return cls(start)

    def shown(self, images: Tensor, random: torch.Generator) -> Sequence[Tensor]:  # noqa: ARG002
        """The images (B,) of each view: those of the batch, unless a rival shows others beside them."""
        return (images,) * len(self.views)

    def begin_(self, epoch: Epoch, pictures: Pictures, device: torch.device) -> bool:  # noqa: ARG002
        """Called before every epoch; whether there is still something to learn."""
        return True

    def loss(self, seen: Seen) -> Tensor | None:
        """The loss of a step; None if there is nothing to learn from it."""
        raise NotImplementedError

    def update_(self, seen: Seen) -> None:
        """Called after every step."""


def train(objective: Objective, pictures: Pictures, schedule: Schedule, run: Run) -> None:
    """Minimize the objective in place, and leave it in eval mode. With a folder in `run`, a stopped run resumes."""
    name, count = type(objective).__name__, len(pictures.images)
    module_to_device(objective.train(), run.device)
    optimizer, scaler = _optimizer(objective, schedule), grad_scaler(run.device)
    batch = min(schedule.batch, count)
    per_epoch = count // batch
    steps = schedule.epochs * per_epoch
    learning: dict[str, nn.Module | torch.optim.Optimizer | torch.amp.GradScaler]
    learning = {"objective": objective, "optimizer": optimizer, "scaler": scaler}
    checkpoints, start = run.checkpoints({"objective": name, "images": count} | schedule._asdict()), 0
    if (saved := checkpoints.load()) is not None:
        start = saved.step
        for part, state in saved.state.items():
            if state:  # that of the scaler is empty unless the precision is float16
                learning[part].load_state_dict(state)
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
            step + 1, of=steps, state=lambda: {part: one.state_dict() for part, one in learning.items()}
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
    learned = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    rate, decay, momentum = schedule.learning_rate, schedule.weight_decay, schedule.momentum
    if momentum is None:
        return torch.optim.Adam(learned, lr=rate, weight_decay=decay)
    return torch.optim.SGD(learned, lr=rate, momentum=momentum, weight_decay=decay, nesterov=schedule.nesterov)
