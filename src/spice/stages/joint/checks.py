"""Did joint training help? What can be seen of a clustering without labels, before and after (beyond the paper).

The third stage must not make things worse unseen: where these signs fall, the second stage's answer is kept.

Shapes: N images, D feature width, K clusters, S neighbors.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from spice.core import consistency_ratio, double_softmax_cross_entropy, prototype_table
from spice.errors import SpiceWarning

CONFIDENT = 0.95  # the paper's eta

# How far a sign may fall by chance. Agreement moved by less than 0.005 between runs that differ in their seed alone.
AGREEMENT_SLACK = 0.01
CONFIDENCE_SLACK = 0.05
LOSS_SLACK = 0.02


class DoubtfulRefinementWarning(SpiceWarning):
    """Joint training made something worse that can be seen without labels; its result is not used."""


class Signs(NamedTuple):
    """What a clustering shows of itself."""

    agreement: float  # mean r_i: how far neighbors share a label
    common: float  # the same among neighbors in the features before joint training, which both answers have in common
    chance: float  # the same among any images: the less even clusters are, the more often two share one
    confident: float  # share of images with a probability of at least CONFIDENT
    loss: float  # of the head over the whole set, M = N, as heads are selected by (paper III-B)
    empty: int  # clusters without an image, of those that labels are learned for


def signs(
    features: Tensor, probs: Tensor, neighbors: Tensor, *, common: Tensor, learned: Tensor | None = None
) -> Signs:
    """The signs of predictions (N, K) on plain images with features (N, D) and neighbors (N, S) in them.

    Args:
        common: neighbors (N, S) in the features before joint training.
        learned: the clusters of the labels that joint training learns; None: all clusters. One that nothing is learned
            of dissolves, and has been named before.
    """
    confidence, labels = probs.max(dim=1)
    expected = torch.ones(probs.shape[1], dtype=torch.bool)
    if learned is not None:
        expected = learned.bincount(minlength=probs.shape[1]) > 0
    # softmax(log p) = p, so log p stands in for the logits.
    logits = probs.clamp(min=1e-30).log()
    sizes = labels.bincount(minlength=probs.shape[1])  # (K,)
    return Signs(
        agreement=consistency_ratio(labels, neighbors).mean().item(),
        common=consistency_ratio(labels, common).mean().item(),
        chance=(sizes / len(labels)).square().sum().item(),
        confident=(confidence >= CONFIDENT).float().mean().item(),
        loss=double_softmax_cross_entropy(logits, prototype_table(features, probs)).item(),
        empty=int((expected & (sizes == 0)).sum()),
    )


def doubts(before: Signs, after: Signs) -> list[str]:
    """Why the result after joint training should not replace the one before; empty if nothing speaks against it.

    A network that has learned from hard labels and one that has learned from prototypes are not sure in the same way.
    So being less sure tells against it only where neighbors do not tell for it: they agree clearly more in its own
    features, which its labels have shaped, and not clearly less in the features before, which they have not. Here what
    chance gives is taken off: where a few clusters swallow the others, neighbors agree more, and nothing is better.
    """
    found = []
    slack = AGREEMENT_SLACK / max(1 - before.chance, 1e-12)
    more = _beyond_chance(after.agreement, after) > _beyond_chance(before.agreement, before) + slack
    less = _beyond_chance(after.common, after) < _beyond_chance(before.common, before) - slack
    neighbors_approve = more and not less
    if after.empty > before.empty:
        found.append(f"empty clusters rose from {before.empty} to {after.empty}")
    if after.agreement < before.agreement - AGREEMENT_SLACK:
        found.append(f"agreement with neighbors fell from {before.agreement:.3f} to {after.agreement:.3f}")
    if after.confident < before.confident - CONFIDENCE_SLACK and not neighbors_approve:
        found.append(f"the share of confident predictions fell from {before.confident:.3f} to {after.confident:.3f}")
    if after.loss > before.loss + LOSS_SLACK and not neighbors_approve:
        found.append(f"the head's loss over all images rose from {before.loss:.3f} to {after.loss:.3f}")
    return found


def _beyond_chance(agreement: float, seen: Signs) -> float:
    """Scott's pi: 0 for labels at random, 1 where all neighbors agree."""
    return (agreement - seen.chance) / max(1 - seen.chance, 1e-12)
