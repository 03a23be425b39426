"""Third stage: feature model and clustering head trained together, from reliable labels (paper III-C).

Shapes: L labeled and U other images in a step; K clusters; S pixels on a side.
"""

import copy
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from spice.core import IGNORE, ema_update_, joint_loss
from spice.engine.checkpoints import Checkpoints, Saved
from spice.engine.processes import ALONE, Processes
from spice.engine.schedules import set_learning_rate_, seven_sixteenths_cosine
from spice.errors import UserError
from spice.models.heads import Head
from spice.progress import Progress, silent
from spice.randomness import generator
from spice.settings import JointSettings
from spice.stages.joint.draws import Draws, Labeled, check_labels
from spice.stages.joint.fixmatch import FixMatch
from spice.stages.joint.freematch import FreeMatch


class View(Protocol):
    """A random view, as in `spice.augment`: uint8 (B, C, S, S) -> what the network takes, one row per image."""

    def __call__(
        self, images: Tensor, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
    ) -> Tensor: ...


class Images(Protocol):
    """What the stage reads pixels from."""

    def __len__(self) -> int: ...

    def take(self, positions: Tensor) -> Tensor: ...


class Algorithm(Protocol):
    """What a semi-supervised algorithm decides: which images teach themselves now, and as what.

    "Other semi-supervised algorithms can also be used" (paper): a file with these methods, and a line in `_algorithm`.
    """

    def label(self, probs: Tensor) -> Tensor: ...

    def state(self) -> dict[str, Tensor]: ...

    def restore_(self, state: dict[str, Tensor]) -> None: ...


class Step(NamedTuple):
    """What one step tells of itself."""

    loss: float
    taught: float  # share of the U images whose own prediction was sure enough to teach


class Joint(NamedTuple):
    """What the stage leaves."""

    network: nn.Module  # the moving average, in eval mode: what is evaluated and kept
    history: list[Step]


class ClusteringNetwork(nn.Module):
    """The whole network of the paper: images -> features -> logits."""

    def __init__(self, backbone: nn.Module, head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, K)."""
        logits: Tensor = self.head(self.backbone(images))
        return logits


def train_jointly(
    network: nn.Module,
    images: Images,
    labeled: Labeled,
    settings: JointSettings,
    *,
    clusters: int,
    weak: View,
    strong: View,
    seed: int,
    checkpoints: Checkpoints,
    processes: Processes = ALONE,
    progress: Progress = silent,
) -> Joint:
    """Minimize L_joint over the whole network, which is trained in place; return the moving average of its weights.

    Args:
        network: views -> (B, K) logits, from stages 1 and 2 as in the paper, or untrained as in the authors' code.
        labeled: fixed while training.
        weak: alpha, under which labels are given and the labeled images are learned.
        strong: beta, under which the others learn their own labels.
    """
    check_labels(labeled, images=len(images), clusters=clusters)
    training = _Training(network, settings, clusters=clusters)
    draws = Draws(len(images), labeled, settings, seed, processes)

    def step_once(step: int, steps: int) -> Step:
        chosen = draws.of(step)
        pixels = images.take(torch.cat([chosen.labeled, chosen.others])).to(training.device)
        noise = generator(seed, "joint", "views", step)  # the same in every process: each keeps its own rows
        rows, of = draws.rows, settings.labeled + settings.unlabeled
        views = _Views(
            weak(pixels, noise, rows=rows, of=of),
            strong(pixels[len(chosen.labeled) :], noise, rows=rows[len(chosen.labeled) :], of=of),
        )
        return training.step_(views, chosen.clusters.to(training.device), step, steps, processes)

    history: list[Step] = []
    saved = checkpoints.load()
    if saved is not None:
        steps, history = training.restore_(saved)
    elif settings.minutes is not None:
        steps = _steps_within(settings.minutes, training, step_once, processes)
        if processes.first:  # at once: a run that is killed early must not plan anew
            checkpoints.save(0, training.state(steps, history))
    else:
        steps = settings.steps
    for step in range(len(history), steps):
        history.append(step_once(step, steps))
        progress("joint training", step + 1, steps, history[-1]._asdict())
        if processes.first and (checkpoints.due() or step + 1 == steps):
            checkpoints.save(step + 1, training.state(steps, history))
    return Joint(training.averaged(), history)


class _Views(NamedTuple):
    weak: Tensor  # (L + U, C, S, S), the labeled images first
    strong: Tensor  # (U, C, S, S)


class _Training:
    """The network, its moving average, and what moves them."""

    def __init__(self, network: nn.Module, settings: JointSettings, *, clusters: int) -> None:
        self.network = network.train()
        self.average = copy.deepcopy(network)
        self.settings = settings
        self.algorithm = _algorithm(settings, clusters)
        self.optimizer = _optimizer(network, settings)

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    def step_(self, views: _Views, labels: Tensor, step: int, steps: int, processes: Processes) -> Step:
        """One step down L_joint, and one of the average after it."""
        labeled, weak, strong = self._logits(views, len(labels))  # (L, K), (U, K), (U, K)
        if not all(logits.isfinite().all() for logits in (labeled, weak, strong)):
            raise UserError(
                f"the network's output is no longer finite at step {step} of joint training: "
                f"start the stage again with a learning rate below {self.settings.learning_rate}"
            )
        # Every process labels all images, for the thresholds may depend on all; then it keeps its own.
        everyone = processes.gather(weak.softmax(dim=1))
        consistency = self.algorithm.label(everyone)[processes.rank :: processes.count]  # (U,)
        loss = joint_loss(labeled, labels, strong, consistency)
        set_learning_rate_(self.optimizer, self.settings.learning_rate * seven_sixteenths_cosine(step, steps))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        processes.average_gradients_(self.network.parameters())
        self.optimizer.step()
        ema_update_(self.average, self.network, momentum=momentum(self.settings, steps))
        return Step(loss.item(), (consistency != IGNORE).float().mean().item())

    def _logits(self, views: _Views, labeled: int) -> tuple[Tensor, ...]:
        """Of the labeled images, and of the others' weak and strong views."""
        others = len(views.strong)
        if _normalizes_batches(self.network):
            # One forward for all views, so that batch norm sees one batch, as in FixMatch.
            together = self.network(_laid_out(torch.cat([views.weak, views.strong])))  # (L + 2U, K)
            return together.split([labeled, others, others])  # type: ignore[no-any-return]
        # Where each image is seen alone, weak views that only give labels need no backward pass.
        with torch.no_grad():
            weak = self.network(_laid_out(views.weak[labeled:]))
        learned = self.network(_laid_out(torch.cat([views.weak[:labeled], views.strong])))  # (L + U, K)
        return learned[:labeled], weak, learned[labeled:]

    def averaged(self) -> nn.Module:
        """The moving average of the weights with the newest batch-norm statistics, ready to predict."""
        for old, new in zip(self.average.buffers(), self.network.buffers(), strict=True):
            old.copy_(new)
        return self.average.eval()

    def state(self, steps: int, history: list[Step]) -> dict[str, object]:
        return {
            "steps": steps,
            "history": torch.tensor(history, dtype=torch.float64).view(-1, len(Step._fields)),
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "algorithm": self.algorithm.state(),
        }

    def restore_(self, saved: Saved) -> tuple[int, list[Step]]:
        """Go on from a checkpoint: returns the number of steps planned, and the story so far."""
        state = saved.state
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.algorithm.restore_(state["algorithm"])
        return state["steps"], [Step(*entry) for entry in state["history"].tolist()]


def momentum(settings: JointSettings, steps: int) -> float:
    """The moving average's: 0.999 as published, but one that spans no more than a twentieth of a short schedule."""
    return settings.ema if settings.ema is not None else min(0.999, max(0.0, 1 - 20 / steps))


def _steps_within(
    minutes: float, training: _Training, step_once: Callable[[int, int], Step], processes: Processes
) -> int:
    """How many steps fit, from the pace of a few that are then undone."""
    untouched = copy.deepcopy(training.state(0, []))
    step_once(0, 1000)  # the first is slow: memory is allotted, kernels are chosen
    started = time.monotonic()
    for trial in (1, 2, 3):
        step_once(trial, 1000)
    pace = (time.monotonic() - started) / 3
    training.restore_(Saved(0, untouched))
    # All processes must plan the same number.
    slowest = processes.gather(torch.tensor([pace])).max().item()
    return max(1, int(minutes * 60 / slowest))


def _optimizer(network: nn.Module, settings: JointSettings) -> torch.optim.Optimizer:
    # Biases and the scales of batch norm are not decayed, as in FixMatch.
    decayed = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in network.parameters() if parameter.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    if settings.optimizer == "adam":
        return torch.optim.AdamW(groups, lr=settings.learning_rate)
    momentum = settings.sgd_momentum
    return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=momentum, nesterov=momentum > 0)


def _normalizes_batches(network: nn.Module) -> bool:
    return any(isinstance(part, _BatchNorm) and part.training for part in network.modules())


def _laid_out(views: Tensor) -> Tensor:
    """Images and maps channels-last, which convolutions are fastest with; tokens (B, places, D) as they are."""
    return views.contiguous(memory_format=torch.channels_last) if views.ndim == 4 else views


def _algorithm(settings: JointSettings, clusters: int) -> Algorithm:
    if settings.algorithm == "freematch":
        return FreeMatch(clusters=clusters)
    return FixMatch(threshold=settings.threshold)
