"""Stage 3: train feature model and clustering head jointly, from reliable labels (paper III-C).

All semi-supervised algorithms share this loop: sampling, optimizer, schedule, moving average and checkpoints. They
differ in the loss (`spice.stages.joint.algorithms`).

Shapes: L labeled and U unlabeled images in a step; K clusters; S pixels on a side.
"""

import copy
import time
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from spice.augment import Strong, Weak
from spice.core import ema_update_
from spice.data.images import Images
from spice.engine.device import grad_scaler, to_device
from spice.engine.run import Run
from spice.engine.schedules import set_learning_rate_, seven_sixteenths_cosine
from spice.errors import UserError
from spice.settings import AugmentSettings, JointSettings, Normalization
from spice.stages.joint.algorithms import Batch, find_algorithm
from spice.stages.joint.sampling import Labeled, StepSampler


class View(Protocol):
    """A random view, as in `spice.augment`: uint8 (B, C, S, S) -> the network's input, one row per image."""

    def __call__(
        self, images: Tensor, generator: torch.Generator, *, rows: Tensor | None = None, of: int | None = None
    ) -> Tensor: ...


class Learner(NamedTuple):
    """A network to train, and the random views that it learns from."""

    network: nn.Module  # views -> (B, K) logits
    clusters: int
    weak: View  # alpha: of labeled images, and of unlabeled ones to predict their pseudo-labels
    strong: View  # beta: of unlabeled images, to learn these pseudo-labels

    @classmethod
    def on_images(
        cls, network: nn.Module, clusters: int, augment: AugmentSettings, *, size: int, normalization: Normalization
    ) -> "Learner":
        """A learner for a network that takes normalized images of `size` pixels."""
        weak, strong = (recipe(augment, size=size, normalization=normalization) for recipe in (Weak, Strong))
        return cls(network, clusters, weak, strong)


class Step(NamedTuple):
    """The loss and pseudo-labels of one step."""

    loss: float
    confident: float  # share of the unlabeled images with a pseudo-label


class Joint(NamedTuple):
    """The result of the stage."""

    network: nn.Module  # the moving average of the weights, in eval mode
    history: list[Step]


class ClusteringNetwork(nn.Module):
    """The whole network of the paper: images -> features -> logits."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, K)."""
        logits: Tensor = self.head(self.backbone(images))
        return logits


def train_jointly(learner: Learner, images: Images, labeled: Labeled, settings: JointSettings, run: Run) -> Joint:
    """Minimize the algorithm's loss (FixMatch: L_joint); return the moving average of the weights.

    The network is trained in place. It comes from stages 1 and 2, as in the paper, or is untrained, as in the authors'
    code. The labels in `labeled` stay fixed. If `run` has a folder, a stopped run resumes bit for bit.
    """
    training = _Training(learner, images, labeled, settings, run)
    identity = settings.model_dump(mode="json") | {"images": len(images), "labels": len(labeled.image)}
    checkpoints = run.checkpoints(identity)
    saved = checkpoints.load()
    steps, history = settings.steps, list[Step]()
    if saved is not None:
        steps, history = training.restore_(saved.state)
    elif settings.minutes is not None:
        steps = training.steps_within(settings.minutes)
        checkpoints.save(0, training.state(steps, history))  # now: a run that is killed early must keep this plan
    for step in range(len(history), steps):
        history.append(training.step_(step, steps))
        run.progress("joint training", step + 1, steps, history[-1]._asdict())
        checkpoints.save_if_due(step + 1, of=steps, state=lambda: training.state(steps, history))
    for old, new in zip(training.average.buffers(), training.network.buffers(), strict=True):
        old.copy_(new)  # the averaged weights get the latest batch-norm statistics
    return Joint(training.average.eval(), history)


class _Training:
    """The state of the training: the network, its moving average, and the optimizer."""

    def __init__(self, learner: Learner, images: Images, labeled: Labeled, settings: JointSettings, run: Run) -> None:
        self.learner, self.images, self.settings, self.run = learner, images, settings, run
        self.network = learner.network.train()
        if settings.batch_norm_momentum is not None:
            for module in self.network.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.momentum = settings.batch_norm_momentum
        self.average = copy.deepcopy(self.network)
        self.algorithm = find_algorithm(settings.algorithm)(settings, learner.clusters)
        self.optimizer = _optimizer(self.network, settings)
        self.device = next(self.network.parameters()).device
        self.scaler = grad_scaler(self.device)
        self.sampler = StepSampler(len(images), labeled, settings, run)

    def step_(self, step: int, steps: int) -> Step:
        """Update the network, then its moving average."""
        batch = self._batch(step, steps)
        try:
            loss = self.algorithm.loss(batch)
            if not loss.isfinite():
                raise FloatingPointError("the loss is no longer finite")
        except FloatingPointError as error:
            raise UserError(
                f"{error} at step {step} of joint training: "
                f"start the stage again with a learning rate below {self.settings.learning_rate}"
            ) from None
        set_learning_rate_(self.optimizer, self.settings.learning_rate * seven_sixteenths_cosine(step, steps))
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.run.processes.average_gradients_(self.network.parameters())
        self.scaler.step(self.optimizer)
        self.scaler.update()
        ema_update_(self.average, self.network, momentum=momentum(self.settings, steps))
        return Step(loss.item(), batch.confident)

    def _batch(self, step: int, steps: int) -> Batch:
        drawn, names = self.sampler.sample(step), self.algorithm.views
        count = len(drawn.labeled)
        positions = torch.cat([drawn.labeled, drawn.unlabeled]) if names else drawn.labeled
        pixels = to_device(self.images.take(positions), self.device)
        random = self.run.generator("joint", "views", step)  # the same in every process: each keeps its own rows

        def view(name: str, rows: slice) -> Tensor:
            recipe = self.learner.weak if name == "weak" else self.learner.strong
            of = self.settings.labeled + self.settings.unlabeled
            return recipe(pixels[rows], random, rows=self.sampler.rows[rows], of=of)

        # One call makes the view of the labeled images and the first view of the unlabeled ones if both have one name.
        together = names[:1] == (self.algorithm.labeled_view,)
        first = view(self.algorithm.labeled_view, slice(None) if together else slice(count))
        unlabeled = [first[count:]] if together else []
        unlabeled += [view(name, slice(count, None)) for name in names[len(unlabeled) :]]
        return Batch(
            self.network,
            self.average,
            first[:count],
            to_device(drawn.clusters, self.device),
            tuple(unlabeled),
            step,
            steps,
            random,
            self.run.processes,
        )

    def steps_within(self, minutes: float) -> int:
        """The number of steps that fit into `minutes`, estimated from a few steps that are then undone."""
        before = copy.deepcopy(self.state(0, []))
        self.step_(0, 1000)  # not timed: the first step allocates memory and selects kernels
        started = time.monotonic()
        for trial in (1, 2, 3):
            self.step_(trial, 1000)
        seconds = (time.monotonic() - started) / 3
        self.restore_(before)
        slowest = self.run.processes.gather(torch.tensor([seconds])).max().item()  # the same in all processes
        return max(1, int(minutes * 60 / slowest))

    def state(self, steps: int, history: list[Step]) -> dict[str, Any]:
        """Everything a checkpoint needs to resume the training."""
        return {
            "steps": steps,
            "history": torch.tensor(history, dtype=torch.float64).view(-1, len(Step._fields)),
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "algorithm": self.algorithm.state(),
        }

    def restore_(self, state: dict[str, Any]) -> tuple[int, list[Step]]:
        """Continue from a saved state. Returns the planned number of steps and the history so far."""
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        if state.get("scaler"):  # empty unless the precision is float16
            self.scaler.load_state_dict(state["scaler"])
        self.algorithm.restore_(state["algorithm"])
        return state["steps"], [Step(*entry) for entry in state["history"].tolist()]


def momentum(settings: JointSettings, steps: int) -> float:
    """Momentum of the moving average. If it is not set: 0.999, or less to span at most 1/20 of a short schedule."""
    return settings.ema if settings.ema is not None else min(0.999, max(0.0, 1 - 20 / steps))


def _optimizer(network: nn.Module, settings: JointSettings) -> torch.optim.Optimizer:
    # No weight decay for biases and batch norm, as in FixMatch.
    weights = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    biases = [parameter for parameter in network.parameters() if parameter.ndim <= 1]
    groups = [{"params": weights, "weight_decay": settings.weight_decay}, {"params": biases, "weight_decay": 0.0}]
    if settings.optimizer == "adam":
        return torch.optim.AdamW(groups, lr=settings.learning_rate)
    momentum = settings.sgd_momentum
    return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=momentum, nesterov=momentum > 0)
