"""Learning from corrections: train a new head on the edited groups, in seconds.

E-step: the labels of fixed and typical images spread over the neighbor graph to all others. M-step: the head learns
the fixed labels by cross-entropy, pairs by -ln<p_i, p_j> and -ln(1 - <p_i, p_j>), and the spread labels by the loss of
stage 2 (double softmax), from features with noise as views. What a person decided overrides the head's prediction.

Shapes: N images, M in a batch, D feature width, G groups, P pairs.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from spice.core import double_softmax_cross_entropy
from spice.engine.adam import Adam
from spice.engine.device import to_device
from spice.engine.parallel import one_thread
from spice.engine.run import Run
from spice.models.heads import Head
from spice.randomness import seeded
from spice.settings import HeadSettings
from spice.stages.encode import probabilities
from spice.stages.groups.decide import decide
from spice.stages.groups.lessons import Lessons
from spice.stages.groups.spread import Near, spread_labels
from spice.stages.heads.inputs import principal_components

# A typical image was seen, but not placed: it counts a fifth of one that was placed.
TYPICAL_WEIGHT = 0.2
# The spread labels count for this much, beside 1 for the fixed and typical ones.
SPREAD_WEIGHT = 0.3
COMPONENTS = 128
STEPS, BATCH = 100, 4096
NOISE = 0.3  # in units of the components' mean deviation
TINY = 1e-6

Noisy = Callable[[Tensor], Tensor]


class LearnedHead(NamedTuple):
    """A head for the groups of `Lessons.numbers`, and the group of every image."""

    head: Head  # on the encoder's features
    group: NDArray[np.int64]  # (N,) position in `Lessons.numbers`; -1: set aside, and not asked


def learn_groups(
    features: NDArray[np.float32], near: Near, taught: Lessons, settings: HeadSettings, run: Run
) -> LearnedHead:
    """Train a head on the lessons, from features (N, D) and the nearest images of every image."""
    components = principal_components(features, settings.components or COMPONENTS, seed=run.seed)
    inputs = to_device(torch.from_numpy(components.table(features)), run.device)  # (N, R)
    labels = torch.from_numpy(_spread(taught, near))  # (n,) of the images that take part; -1: none
    with seeded(run.seed, "learn", "weights"):
        head = Head(inputs.shape[1], len(taught.numbers), hidden=settings.hidden or 2 * inputs.shape[1]).to(run.device)
    with one_thread():
        _train_(head, inputs, labels, taught, settings.learning_rate, run)
    whole = components.on_features(head.eval().cpu())
    probs = probabilities(whole, torch.from_numpy(features))
    return LearnedHead(whole, decide(probs.numpy(), taught))


def _train_(  # noqa: PLR0917
    head: Head, inputs: Tensor, labels: Tensor, taught: Lessons, learning_rate: float, run: Run
) -> None:
    """M-step, `STEPS` times: inputs (N, R), spread labels (n,) of the images that take part."""
    optimizer = Adam(head.parameters(), learning_rate=learning_rate)
    rows = torch.from_numpy(taught.taking_part)[labels >= 0]
    labels = labels[labels >= 0].to(run.device)
    for step in range(STEPS):
        randomness = run.generator("learn", "views", step)

        def noisy(chosen: Tensor, randomness: torch.Generator = randomness) -> Tensor:
            some = inputs[chosen.to(run.device)]
            return some + NOISE * torch.randn(some.shape, generator=randomness).to(run.device)

        batch = torch.randperm(len(rows), generator=randomness)[:BATCH]
        spread = double_softmax_cross_entropy(head(noisy(rows[batch])), labels[batch.to(run.device)])
        loss = SPREAD_WEIGHT * spread + _decided_loss(head, noisy, taught, run.device)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        run.progress("learning", step + 1, STEPS, {"loss": float(loss.detach())})


def _spread(taught: Lessons, near: Near) -> NDArray[np.int64]:
    """The group of every image that takes part, as the neighbor graph says; -1 where no label reaches."""
    labels = np.zeros((len(near.neighbors), len(taught.numbers)), dtype=np.float32)
    labels[taught.typical, taught.typical_group] = TYPICAL_WEIGHT
    labels[taught.fixed] = 0
    labels[taught.fixed, taught.fixed_group] = 1
    belongs = spread_labels(near, labels)
    belongs[taught.settled] = 0
    belongs[taught.settled, taught.settled_group] = 1
    belongs[taught.rejected[:, 0], taught.rejected[:, 1]] = 0
    belongs[taught.fixed] = labels[taught.fixed]
    found = np.where(belongs.sum(axis=1) > 0, belongs.argmax(axis=1), -1)
    return found[taught.taking_part].astype(np.int64)


def _decided_loss(head: Head, noisy: Noisy, taught: Lessons, device: torch.device) -> Tensor:
    """What people said: fixed and typical labels, images that do not belong to a group, pairs."""
    images = torch.from_numpy(np.concatenate([taught.fixed, taught.typical]))
    group = torch.from_numpy(np.concatenate([taught.fixed_group, taught.typical_group]))
    weight = torch.cat([torch.ones(len(taught.fixed)), torch.full((len(taught.typical),), TYPICAL_WEIGHT)]).to(device)
    loss = torch.zeros((), device=device)
    if len(images):
        loss = (F.cross_entropy(head(noisy(images)), group.to(device), reduction="none") * weight).sum() / weight.sum()
    if len(taught.rejected):
        rejected = torch.from_numpy(taught.rejected)
        chance = head(noisy(rejected[:, 0])).softmax(dim=1).gather(1, rejected[:, 1:].to(device))
        loss = loss - (1 - chance).clamp(min=TINY).log().mean()
    for pairs, together in ((taught.same, True), (taught.different, False)):
        if len(pairs):
            loss = loss + pair_loss(*_pair_probs(head, noisy, pairs), together=together)
    return loss


def pair_loss(first: Tensor, second: Tensor, *, together: bool) -> Tensor:
    """-ln<p_i, p_j> for images of one group, -ln(1 - <p_i, p_j>) for images of different ones: mean over (P, G)."""
    agreement = (first * second).sum(dim=1)  # (P,)
    return -(agreement if together else 1 - agreement).clamp(min=TINY).log().mean()


def _pair_probs(head: Head, noisy: Noisy, pairs: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    first, second = (head(noisy(torch.from_numpy(pairs[:, side].copy()))).softmax(dim=1) for side in (0, 1))
    return first, second
