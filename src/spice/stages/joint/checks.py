"""Checks whether joint training helped, using statistics that need no labels (beyond the paper).

If a check fails, the stage-2 result is kept.

Shapes: N images, D feature width, K clusters, S neighbors.
"""

from typing import NamedTuple

from torch import Tensor

from spice.core import consistency_ratio, double_softmax_cross_entropy, prototype_table
from spice.errors import SpiceWarning

CONFIDENT = 0.95  # the paper's eta

# How far a statistic may fall by chance. Between seeds, agreement differs by less than 0.005.
AGREEMENT_SLACK = 0.01
CONFIDENCE_SLACK = 0.05
LOSS_SLACK = 0.02


class RefinementRejectedWarning(SpiceWarning):
    """The result of joint training failed a check, and the stage-2 result is kept."""


class ClusteringStats(NamedTuple):
    """Statistics of a clustering, computed without labels."""

    neighbor_agreement: float  # mean r_i: share of an image's neighbors with its label
    prior_neighbor_agreement: float  # the same with the neighbors before joint training, to compare before and after
    chance_agreement: float  # the same for two random images: higher if clusters are less balanced
    confident: float  # share of images with a probability of at least CONFIDENT
    loss: float  # of the head over all images (M = N), as in head selection (paper III-B)
    empty: int  # clusters without images, among those with labels to learn


def clustering_stats(
    features: Tensor, probs: Tensor, neighbors: Tensor, *, prior_neighbors: Tensor, learned: Tensor
) -> ClusteringStats:
    """Statistics of the predictions (N, K) for plain images with features (N, D) and their neighbors (N, S).

    Args:
        prior_neighbors: neighbors (N, S) in the features before joint training.
        learned: the labels that joint training learns. A cluster without labels dissolves, which an earlier warning
            has announced.
    """
    confidence, labels = probs.max(dim=1)
    expected, sizes = (clusters.bincount(minlength=probs.shape[1]) for clusters in (learned, labels))  # (K,)
    logits = probs.clamp(min=1e-30).log()  # equivalent to the head's: softmax(log p) = p
    return ClusteringStats(
        neighbor_agreement=consistency_ratio(labels, neighbors).mean().item(),
        prior_neighbor_agreement=consistency_ratio(labels, prior_neighbors).mean().item(),
        chance_agreement=(sizes / len(labels)).square().sum().item(),
        confident=(confidence >= CONFIDENT).float().mean().item(),
        loss=double_softmax_cross_entropy(logits, prototype_table(features, probs)).item(),
        empty=int(((expected > 0) & (sizes == 0)).sum()),
    )


def failed_checks(before: ClusteringStats, after: ClusteringStats) -> list[str]:
    """The reasons to keep the result before joint training; empty if every check passes.

    Networks trained on hard labels and on prototypes differ in confidence. So a fall in confidence, or a rise of the
    loss, fails a check only if the neighbors do not confirm the result. They confirm it if they agree clearly more in
    the new features, which the labels have shaped, and not clearly less in the old features. Here agreement is
    corrected for chance, because it rises if a few clusters absorb the others.
    """
    slack = AGREEMENT_SLACK / max(1 - before.chance_agreement, 1e-12)
    rose = _beyond_chance(after.neighbor_agreement, after) > _beyond_chance(before.neighbor_agreement, before) + slack
    prior, prior_after = before.prior_neighbor_agreement, after.prior_neighbor_agreement
    prior_fell = _beyond_chance(prior_after, after) < _beyond_chance(prior, before) - slack
    confirmed = rose and not prior_fell
    failed = []
    if after.empty > before.empty:
        failed.append(f"the number of empty groups rose from {before.empty} to {after.empty}")
    if after.neighbor_agreement < before.neighbor_agreement - AGREEMENT_SLACK:
        failed.append(f"neighbor agreement fell from {before.neighbor_agreement:.2f} to {after.neighbor_agreement:.2f}")
    if after.confident < before.confident - CONFIDENCE_SLACK and not confirmed:
        failed.append(f"the share of confident predictions fell from {before.confident:.2f} to {after.confident:.2f}")
    if after.loss > before.loss + LOSS_SLACK and not confirmed:
        failed.append(f"the head's loss over all images rose from {before.loss:.2f} to {after.loss:.2f}")
    return failed


def _beyond_chance(agreement: float, stats: ClusteringStats) -> float:
    """Scott's pi: 0 for random labels, 1 if all neighbors agree."""
    return (agreement - stats.chance_agreement) / max(1 - stats.chance_agreement, 1e-12)
