"""The stages without a run folder, for features that are in memory already.

Shapes: N images, D feature width, K clusters.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.engine.run import Run
from spice.errors import UserError
from spice.neighbors import nearest
from spice.progress import Progress, silent
from spice.runs import Labels
from spice.settings import RunSettings
from spice.stages.answers import answers
from spice.stages.bank import remember
from spice.stages.heads.inputs import batch_size
from spice.stages.heads.train import train_heads
from spice.stages.model import NoEncoder, TrainedModel, probabilities
from spice.stages.reliability import neighbors_to_ask
from spice.stages.views import perturb_features


class Answer(NamedTuple):
    """A result that was never written."""

    labels: Labels
    probabilities: NDArray[np.float32]  # (N, K)
    model: TrainedModel


def cluster_features(features: Tensor, settings: RunSettings, *, progress: Progress = silent) -> Answer:
    """Group images of which there are features (N, D) alone: the same stages, in memory, without a run folder."""
    seed, clusters = settings.seed, settings.heads.clusters
    if settings.joint is not None:
        raise UserError("features alone cannot be refined: there is no encoder to train; give the images")
    batch_size(len(features), settings.heads)
    with TemporaryDirectory(prefix="spice-") as folder:
        views = perturb_features(features.numpy(), settings.views, Run(seed=seed, folder=Path(folder)))
        head = train_heads(views, settings.heads, seed=seed, progress=progress).head
    probs = probabilities(head, features)
    asked = neighbors_to_ask(len(features), clusters, settings.reliability)
    near = nearest(features, asked).index
    labels = answers([""] * len(features), features, probs, near, settings.reliability)
    cluster = torch.from_numpy(labels.cluster).long()
    bank = remember(features, cluster, clusters=clusters, neighbors=asked, seed=seed)
    model = TrainedModel(NoEncoder(features.shape[1]), head, bank, threshold=settings.reliability.threshold)
    return Answer(labels, probs.numpy(), model)
