"""k-means on the same features: the baseline for every result."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from spice.arrays import save_array
from spice.engine.run import Run
from spice.pipeline.work import Work
from spice.runs.artifacts import KMEANS
from spice.runs.records import StepResult
from spice.stages.kmeans import kmeans as kmeans_labels


def kmeans(work: Work, run: Run) -> StepResult:
    """Cluster the plain features."""
    save_array(work / KMEANS, work.background.take("kmeans", partial(labels_of, work, run)))
    return StepResult()


def labels_of(work: Work, run: Run) -> NDArray[np.int32]:
    """The clusters, (N,)."""
    return kmeans_labels(work.features.numpy(), work.settings.heads.clusters, seed=run.seed)
