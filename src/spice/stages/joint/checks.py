"""Checks whether joint training helped, by statistics that need no labels (beyond the paper).

If a check fails, the result of stage 2 is kept.

Shapes: N images, D feature width, K clusters, S neighbors.
"""

from typing import NamedTuple

from torch import Tensor

from spice.core import consistency_ratio, double_softmax_cross_entropy, prototype_table
from spice.errors import SpiceWarning

CONFIDENT = 0.95  # the paper's eta

# How far a figure may fall by chance. Agreement differs by less than 0.005 between seeds.
AGREEMENT_SLACK = 0.01
CONFIDENCE_SLACK = 0.05
LOSS_SLACK = 0.02


class RefinementRejectedWarning(SpiceWarning):
    """The result of joint training failed a check that needs no labels, and is not used."""


class ClusteringStats(NamedTuple):
    """What can be measured of a clustering without labels."""

    neighbor_agreement: float  # mean r_i: share of an image's neighbors with its label
    prior_neighbor_agreement: float  # the same among the neighbors before joint training, for a common standard
    chance_agreement: float  # the same for any two images: the less balanced the clusters, the higher
    confident: float  # share of images with a probability of at least CONFIDENT
    loss: float  # of the head over all images, M = N, as in head selection (paper III-B)
    empty: int  # clusters without an image, of those that had labels to learn


def clustering_stats(
    features: Tensor, probs: Tensor, neighbors: Tensor, *, prior_neighbors: Tensor, learned: Tensor
) -> ClusteringStats:
    """Statistics of predictions (N, K) on plain images with features (N, D) and neighbors (N, S) in them.

    Args:
        prior_neighbors: neighbors (N, S) in the features before joint training.
        learned: the clusters of the labels that joint training learns. A cluster without labels dissolves; a warning
            has named it before.
    """
    confidence, labels = probs.max(dim=1)
    expected, sizes = (clusters.bincount(minlength=probs.shape[1]) for clusters in (learned, labels))  # (K,)
    logits = probs.clamp(min=1e-30).log()  # as good as the head's: softmax(log p) = p
    return ClusteringStats(
        neighbor_agreement=consistency_ratio(labels, neighbors).mean().item(),
        prior_neighbor_agreement=consistency_ratio(labels, prior_neighbors).mean().item(),
        chance_agreement=(sizes / len(labels)).square().sum().item(),
        confident=(confidence >= CONFIDENT).float().mean().item(),
        loss=double_softmax_cross_entropy(logits, prototype_table(features, probs)).item(),
        empty=int(((expected > 0) & (sizes == 0)).sum()),
    )


def failed_checks(before: ClusteringStats, after: ClusteringStats) -> list[str]:
    """Why the result after joint training should not replace the one before; empty if every check passes.

    Hard labels and prototypes train networks of different confidence. So lower confidence fails the check only if
    neighbors do not confirm the result: they must agree clearly more in the new features, which the labels have shaped,
    and not clearly less in the old ones, which they have not. Agreement is corrected for chance, because it rises where
    a few clusters absorb the others.
    """
    slack = AGREEMENT_SLACK / max(1 - before.chance_agreement, 1e-12)
    more = _beyond_chance(after.neighbor_agreement, after) > _beyond_chance(before.neighbor_agreement, before) + slack
    prior, prior_after = before.prior_neighbor_agreement, after.prior_neighbor_agreement
    less = _beyond_chance(prior_after, after) < _beyond_chance(prior, before) - slack
    confirmed = more and not less
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
    """Scott's pi: 0 for random labels, 1 where all neighbors agree."""
    return (agreement - stats.chance_agreement) / max(1 - stats.chance_agreement, 1e-12)
