"""The second stage: clustering heads on cached views, and the best of them (paper III-B).

`train_heads` is the whole stage; the paper's Algorithm 1 is in `algorithm_1`. Beyond the paper, clusters may be of even
size or not (`sizes="found"`): even sizes are the paper's rule and help heads to recover from a poor start, but where
groups are of unequal size, they cut through the large groups and separate neighbors. So heads are trained with both
rules, and neighbors in feature space decide.

Shapes: n images in the sample by which heads are compared, D feature width, S neighbors, H heads.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.core import consistency_ratio
from spice.engine.run import Run
from spice.neighbors import nearest
from spice.settings import HeadSettings, ReliabilitySettings
from spice.stages.heads.algorithm_1 import TrainedHeads, algorithm_1
from spice.stages.heads.diagnostics import warn_about
from spice.stages.heads.diffusion import COMPONENTS, diffused, graph_neighbors
from spice.stages.heads.inputs import Components, batch_size, epochs_for, principal_components
from spice.stages.reliability import reliability_neighbors
from spice.stages.views import Views

# Even sizes are rejected where the odds that a neighbor shares an image's cluster are this many times better without.
BETTER_ODDS = 1.25
# Each training is judged by the second best neighbor agreement of this many top heads, so that no single head decides:
# it may be lucky, or have given up a cluster. The selected head must not be worse either.
TOP_HEADS = 5


def train_heads(views: Views, settings: HeadSettings, run: Run, neighbors: Tensor | None = None) -> TrainedHeads:
    """Train `settings.heads` heads on cached views and select the best; a stopped run resumes bit for bit.

    Under several processes each reads its share of every batch, labels are given over the whole batch, and all return
    the same heads.

    Args:
        neighbors: (N, >= S) nearest images of every image, where they are known already. They matter to the similarity
            by the neighbor graph alone.
    """
    batch = batch_size(len(views), settings, run.processes)
    settings = settings.model_copy(update={"epochs": epochs_for(len(views), batch, settings)})
    views, components = _inputs(views, settings, run, neighbors)
    trained = (_train_both_sizes if settings.sizes == "found" else algorithm_1)(views, settings, run)
    warn_about(trained.diagnostics, settings)
    if components is not None:
        trained = trained._replace(head=components.on_features(trained.head), components=components)
    return trained


def _inputs(
    views: Views, settings: HeadSettings, run: Run, neighbors: Tensor | None
) -> tuple[Views, Components | None]:
    """The views as heads see them, with what images are compared by; and the components, if heads see these."""
    graph = settings.similarity == "graph"
    if settings.components is None and not graph:
        return views, None
    components = principal_components(views.plain, settings.components or COMPONENTS, seed=run.seed)
    seen = views if settings.components is None else components.project(views)
    if graph:
        seen = replace(seen, bank=_graph_bank(views.plain, components, settings, neighbors))
    return seen, None if settings.components is None else components


def _graph_bank(
    features: NDArray[np.floating], components: Components, settings: HeadSettings, neighbors: Tensor | None
) -> NDArray[np.float32]:
    """What images are compared by where their similarity follows the neighbor graph: (N, 2K), at most (N, R)."""
    count = graph_neighbors(len(features), settings)
    if neighbors is None:
        neighbors = nearest(torch.from_numpy(np.asarray(features, dtype=np.float32)), count).index
    if neighbors.shape[1] < count:
        raise ValueError(f"need {count} neighbors of each image, got {neighbors.shape[1]}")
    return diffused(components.table(features, one_length=True), neighbors[:, :count].numpy(), settings)


def _train_both_sizes(views: Views, settings: HeadSettings, run: Run) -> TrainedHeads:
    """Train with the nearest-prototype rule and with even sizes, and return the better result."""

    def part(number: int, name: str) -> Run:
        return run.part(number, 2).at(run.folder and run.folder / name)

    by_nearest = algorithm_1(views, settings.model_copy(update={"sizes": "nearest"}), part(0, "nearest"))
    # Even sizes correct a poor start, and the best of many different starts wins: so each of these heads starts from a
    # single run of k-means.
    even = algorithm_1(views, settings.model_copy(update={"sizes": "even", "start_runs": 1}), part(1, "even"))
    return even if prefer_even_sizes(even, by_nearest, views, settings) else by_nearest


def prefer_even_sizes(even: TrainedHeads, by_nearest: TrainedHeads, views: Views, settings: HeadSettings) -> bool:
    """Whether clusters of even size are the better result: fewer are empty, or neighbors agree about as much."""
    if len(by_nearest.diagnostics.empty) > len(even.diagnostics.empty):
        return True
    bank = views.compared(by_nearest.sample)  # (n, D)
    neighbors = nearest(bank, reliability_neighbors(len(bank), settings.clusters, ReliabilitySettings())).index
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
