"""Stage 2: train clustering heads on cached views and select the best one (paper III-B).

`train_heads` is the whole stage. It prepares the inputs of the heads and the features for comparing images; the
paper's Algorithm 1 is in `algorithm_1`.

Shapes: N images, D feature width, R components, S neighbors, K clusters.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.engine.parallel import one_thread
from spice.engine.run import Run
from spice.neighbors import nearest
from spice.settings import HeadSettings
from spice.stages.heads.algorithm_1 import TrainedHeads, algorithm_1
from spice.stages.heads.diagnostics import warn_about
from spice.stages.heads.diffusion import COMPONENTS, diffuse, graph_neighbors
from spice.stages.heads.inputs import Components, batch_size, epochs_for, principal_components
from spice.stages.views import Views


def train_heads(
    views: Views, settings: HeadSettings, run: Run, neighbors: Tensor | None = None, *, cut: Tensor | None = None
) -> TrainedHeads:
    """Train `settings.heads` heads on cached views and select the best; a stopped run resumes bit for bit.

    With several processes, each reads its share of every batch. Labels are computed for the whole batch, and all
    processes return the same heads.

    Args:
        neighbors: (N, >= S) nearest images of every image, if already known. Only similarity "graph" needs them.
        cut: (N,) groups that heads start from if `settings.start` is "cut".
    """
    batch = batch_size(len(views), settings, run.processes)
    settings = settings.model_copy(update={"epochs": epochs_for(len(views), batch, settings)})
    with one_thread():  # operations are small: more threads are no faster, and much slower on a busy machine
        views, components = _inputs(views, settings, run, neighbors)
        trained = algorithm_1(views, settings, run, cut)
    warn_about(trained.diagnostics, settings)
    if components is not None:
        trained = trained._replace(head=components.on_features(trained.head), components=components)
    return trained


def _inputs(
    views: Views, settings: HeadSettings, run: Run, neighbors: Tensor | None
) -> tuple[Views, Components | None]:
    """The inputs of the heads, with a bank for comparing images; and the components, if these are the inputs."""
    graph = settings.similarity == "graph"
    if settings.components is None and not graph:
        return views, None
    components = principal_components(views.plain, settings.components or COMPONENTS, seed=run.seed)
    inputs = views if settings.components is None else components.project(views)
    if graph:
        inputs = replace(inputs, bank=_graph_bank(views.plain, components, settings, neighbors))
    return inputs, None if settings.components is None else components


def _graph_bank(
    features: NDArray[np.floating], components: Components, settings: HeadSettings, neighbors: Tensor | None
) -> NDArray[np.float32]:
    """Features for comparing images with similarity "graph": (N, 2K), at most (N, R)."""
    count = graph_neighbors(len(features), settings)
    if neighbors is None:
        neighbors = nearest(torch.from_numpy(np.array(features, dtype=np.float32)), count).index
    if neighbors.shape[1] < count:
        raise ValueError(f"need {count} neighbors of each image, got {neighbors.shape[1]}")
    return diffuse(components.transform(features, one_length=True), neighbors[:, :count].numpy(), settings)
