"""Learning from corrections: train a new head on the edited groups, in seconds.

E-step: the likely group of every image, from fixed and typical images and the former groups (`chances`). M-step: the
head learns the fixed labels by cross-entropy, pairs by -ln<p_i, p_j> and -ln(1 - <p_i, p_j>), and the labels of the
E-step by the loss of stage 2 (double softmax); its views are features with noise. The run's own images get the groups
of the E-step, except where a person decided otherwise; the head is for new images.

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
from spice.stages.groups.assign import assign_groups
from spice.stages.groups.chances import Chances, group_chances, labeled_images
from spice.stages.groups.lessons import Lessons
from spice.stages.groups.spread import Near
from spice.stages.heads.inputs import principal_components

# Weight of the loss on the labels of the E-step; the loss on fixed and typical images has weight 1.
LIKELY_WEIGHT = 0.3
COMPONENTS = 128
STEPS, BATCH = 100, 4096
NOISE = 0.3  # in units of the components' mean deviation
TINY = 1e-6

Noisy = Callable[[Tensor], Tensor]


class LearnedHead(NamedTuple):
    """A head for the groups of `Lessons.numbers`, and the group of every image."""

    head: Head  # on the encoder's features
    group: NDArray[np.int64]  # (N,) position in `Lessons.numbers`; -1: set aside


def learn_groups(
    features: NDArray[np.float32], near: Near, lessons: Lessons, settings: HeadSettings, run: Run
) -> LearnedHead:
    """Train a head on the lessons, from features (N, D) and the nearest images of every image."""
    components = principal_components(features, settings.components or COMPONENTS, seed=run.seed)
    inputs = to_device(torch.from_numpy(components.transform(features)), run.device)  # (N, R)
    chances = group_chances(components.transform(features, one_length=True), near, lessons)  # (N, G)
    with seeded(run.seed, "learn", "weights"):
        head = Head(inputs.shape[1], len(lessons.numbers), hidden=settings.hidden or 2 * inputs.shape[1]).to(run.device)
    with one_thread():
        _train_(head, inputs, chances, lessons, settings.learning_rate, run)
    return LearnedHead(components.on_features(head.eval().cpu()), assign_groups(chances, lessons))


def _train_(  # noqa: PLR0917
    head: Head, inputs: Tensor, chances: Chances, lessons: Lessons, learning_rate: float, run: Run
) -> None:
    """M-step, `STEPS` times: inputs (N, R), chances (N, G)."""
    optimizer = Adam(head.parameters(), learning_rate=learning_rate)
    labels = torch.from_numpy(chances.argmax(axis=1)).to(run.device)  # (N,)
    for step in range(STEPS):
        randomness = run.generator("learn", "views", step)

        def noisy(chosen: Tensor, randomness: torch.Generator = randomness) -> Tensor:
            some = inputs[chosen.to(run.device)]
            return some + NOISE * torch.randn(some.shape, generator=randomness).to(run.device)

        batch = torch.randperm(len(labels), generator=randomness)[:BATCH]
        likely = double_softmax_cross_entropy(head(noisy(batch)), labels[batch.to(run.device)])
        loss = LIKELY_WEIGHT * likely + _decided_loss(head, noisy, lessons, run.device)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        run.progress("learning", step + 1, STEPS, {"loss": float(loss.detach())})


def _decided_loss(head: Head, noisy: Noisy, lessons: Lessons, device: torch.device) -> Tensor:
    """What people said: fixed and typical labels, images that do not belong to a group, pairs."""
    images, group, weight = map(torch.from_numpy, labeled_images(lessons))
    weight = weight.to(device)
    loss = torch.zeros((), device=device)
    if len(images):
        loss = (F.cross_entropy(head(noisy(images)), group.to(device), reduction="none") * weight).sum() / weight.sum()
    if len(lessons.rejected):
        rejected = torch.from_numpy(lessons.rejected)
        chance = head(noisy(rejected[:, 0])).softmax(dim=1).gather(1, rejected[:, 1:].to(device))
        loss = loss - (1 - chance).clamp(min=TINY).log().mean()
    for pairs, together in ((lessons.same, True), (lessons.different, False)):
        if len(pairs):
            first, second = (head(noisy(torch.from_numpy(side))).softmax(dim=1) for side in pairs.T.copy())
            loss = loss + pair_loss(first, second, together=together)
    return loss


def pair_loss(first: Tensor, second: Tensor, *, together: bool) -> Tensor:
    """-ln<p_i, p_j> for images of one group, -ln(1 - <p_i, p_j>) for images of different ones: mean over (P, G)."""
    agreement = (first * second).sum(dim=1)  # (P,)
    return -(agreement if together else 1 - agreement).clamp(min=TINY).log().mean()
