"""Clusters of even size or not: train with both rules, and let neighbors in feature space decide (beyond the paper).

Clusters of even size are the paper's rule and help heads to recover from a poor start. But where groups are of unequal
size, they cut through the large groups and separate neighbors.

Shapes: n images in the sample by which heads are compared, D feature width, S neighbors, H heads.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from spice.core import consistency_ratio
from spice.engine.run import Run
from spice.neighbors import nearest
from spice.settings import HeadSettings, ReliabilitySettings
from spice.stages.heads.trained import TrainedHeads
from spice.stages.reliability import reliability_neighbors
from spice.stages.views import Views

# Even sizes are rejected where the odds that a neighbor shares an image's cluster are this many times better without.
BETTER_ODDS = 1.25
# Each training is judged by the second best neighbor agreement of this many top heads, so that no single head decides:
# it may be lucky, or have given up a cluster. The selected head must not be worse either.
TOP_HEADS = 5


def train_both_sizes(
    train: Callable[[HeadSettings, Run], TrainedHeads], views: Views, settings: HeadSettings, run: Run
) -> TrainedHeads:
    """Train with the nearest-prototype rule and with even sizes, and return the better result."""

    def part(number: int, name: str) -> Run:
        return run.part(number, 2).at(run.folder and run.folder / name)

    by_nearest = train(settings.model_copy(update={"sizes": "nearest"}), part(0, "nearest"))
    # Even sizes correct a poor start, and the best of many different starts wins: so each of these heads starts from a
    # single run of k-means.
    even = train(settings.model_copy(update={"sizes": "even", "start_runs": 1}), part(1, "even"))
    return even if prefer_even_sizes(even, by_nearest, views, settings) else by_nearest


def prefer_even_sizes(even: TrainedHeads, by_nearest: TrainedHeads, views: Views, settings: HeadSettings) -> bool:
    """Whether clusters of even size are the better result: fewer are empty, or neighbors agree about as much."""
    if len(by_nearest.diagnostics.empty) > len(even.diagnostics.empty):
        return True
    bank = views.compared(by_nearest.sample)  # (n, D)
    neighbors = nearest(bank, reliability_neighbors(len(bank), by_nearest.head.clusters, ReliabilitySettings())).index
    with_even = neighbor_agreement(even, neighbors, settings)
    without = neighbor_agreement(by_nearest, neighbors, settings)
    # odds(without) <= BETTER_ODDS * odds(with_even), without dividing by zero where all neighbors agree
    close = without.second * (1 - with_even.second) <= BETTER_ODDS * with_even.second * (1 - without.second)
    return close or without.selected < with_even.selected


class NeighborAgreement(NamedTuple):
    """Mean share of an image's neighbors in its own cluster: of the selected head, and the second best of top heads."""

    selected: float
    second: float


def neighbor_agreement(trained: TrainedHeads, neighbors: Tensor, settings: HeadSettings) -> NeighborAgreement:
    """Neighbor agreement of the top heads in the snapshot of the selected one; neighbors (n, S)."""
    snapshot = next(one for one in trained.snapshots if one.epoch == trained.best.epoch)
    top = snapshot.score(settings).argsort(stable=True)[:TOP_HEADS]  # the selected one first
    agreement = [consistency_ratio(labels.long(), neighbors).mean().item() for labels in snapshot.labels[top]]
    return NeighborAgreement(agreement[0], sorted(agreement, reverse=True)[:2][-1])
