"""Learn from corrections: train a new head on the edited groups, in seconds.

E-step: the probability of each group for every image, from fixed and typical images and the former groups
(`probabilities`). M-step: the head learns fixed and typical images by cross-entropy, pairs by -ln<p_i, p_j> and
-ln(1 - <p_i, p_j>), and the pseudo-labels of the E-step by the loss of stage 2 (double softmax). Its views are features
with noise. The images of the run get the groups of the E-step, except where a person decided otherwise. The head is for
new images.

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
from spice.stages.groups.corrections import Corrections
from spice.stages.groups.label_spreading import NeighborGraph
from spice.stages.groups.probabilities import Probs, group_probs, labeled_images
from spice.stages.heads.inputs import principal_components

# Weight of the loss on the pseudo-labels of the E-step; the loss on fixed and typical images has weight 1.
PSEUDO_LABEL_WEIGHT = 0.3
COMPONENTS = 128
STEPS, BATCH = 100, 4096
NOISE = 0.3  # in units of the root mean variance of the components
TINY = 1e-6

NoisyInputs = Callable[[Tensor], Tensor]  # rows -> their inputs with noise


class LearnedHead(NamedTuple):
    """A head for the groups of `Corrections.numbers`, and the group of every image."""

    head: Head  # on the encoder's features
    group: NDArray[np.int64]  # (N,) position in `Corrections.numbers`; -1: set aside


def learn_groups(
    features: NDArray[np.float32], graph: NeighborGraph, corrections: Corrections, settings: HeadSettings, run: Run
) -> LearnedHead:
    """Train a head on the corrections, from features (N, D) and the nearest images of each image."""
    components = principal_components(features, settings.components or COMPONENTS, seed=run.seed)
    inputs = to_device(torch.from_numpy(components.transform(features)), run.device)  # (N, R)
    probs = group_probs(components.transform(features, one_length=True), graph, corrections)  # (N, G)
    with seeded(run.seed, "learn", "weights"):
        head = Head(inputs.shape[1], len(corrections.numbers), hidden=settings.hidden or 2 * inputs.shape[1]).to(
            run.device
        )
    with one_thread():
        _train_(head, inputs, probs, corrections, settings.learning_rate, run)
    return LearnedHead(components.on_features(head.eval().cpu()), assign_groups(probs, corrections))


def _train_(  # noqa: PLR0917
    head: Head, inputs: Tensor, probs: Probs, corrections: Corrections, learning_rate: float, run: Run
) -> None:
    """The M-step: `STEPS` steps on inputs (N, R), with pseudo-labels from probs (N, G)."""
    optimizer = Adam(head.parameters(), learning_rate=learning_rate)
    labels = torch.from_numpy(probs.argmax(axis=1)).to(run.device)  # (N,)
    for step in range(STEPS):
        random = run.generator("learn", "views", step)

        def noisy(chosen: Tensor, random: torch.Generator = random) -> Tensor:
            plain = inputs[chosen.to(run.device)]
            return plain + NOISE * torch.randn(plain.shape, generator=random).to(run.device)

        batch = torch.randperm(len(labels), generator=random)[:BATCH]
        pseudo_label_loss = double_softmax_cross_entropy(head(noisy(batch)), labels[batch.to(run.device)])
        loss = PSEUDO_LABEL_WEIGHT * pseudo_label_loss + _correction_loss(head, noisy, corrections, run.device)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        run.progress("learning", step + 1, STEPS, {"loss": float(loss.detach())})


def _correction_loss(head: Head, noisy: NoisyInputs, corrections: Corrections, device: torch.device) -> Tensor:
    """The loss on fixed and typical images, rejected groups, and pairs."""
    images, group, weight = map(torch.from_numpy, labeled_images(corrections))
    weight = weight.to(device)
    loss = torch.zeros((), device=device)
    if len(images):
        loss = (F.cross_entropy(head(noisy(images)), group.to(device), reduction="none") * weight).sum() / weight.sum()
    if len(corrections.rejected):
        rejected = torch.from_numpy(corrections.rejected)
        prob = head(noisy(rejected[:, 0])).softmax(dim=1).gather(1, rejected[:, 1:].to(device))
        loss = loss - (1 - prob).clamp(min=TINY).log().mean()
    for pairs, together in ((corrections.same, True), (corrections.different, False)):
        if len(pairs):
            first, second = (head(noisy(torch.from_numpy(side))).softmax(dim=1) for side in pairs.T.copy())
            loss = loss + pair_loss(first, second, together=together)
    return loss


def pair_loss(first: Tensor, second: Tensor, *, together: bool) -> Tensor:
    """Mean over pairs (P, G) of -ln<p_i, p_j> if images belong together, of -ln(1 - <p_i, p_j>) if they do not."""
    agreement = (first * second).sum(dim=1)  # (P,)
    return -(agreement if together else 1 - agreement).clamp(min=TINY).log().mean()
