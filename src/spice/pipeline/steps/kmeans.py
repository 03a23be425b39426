"""k-means on the same features, to compare every result with."""

from spice.engine.run import Run
from spice.pipeline.work import Work, save_array
from spice.runs.artifacts import KMEANS
from spice.runs.records import StepResult
from spice.stages.kmeans import kmeans as kmeans_labels


def kmeans(work: Work, run: Run) -> StepResult:
    """Cluster the plain features."""
    save_array(work / KMEANS, kmeans_labels(work.features.numpy(), work.settings.heads.clusters, seed=run.seed))
    return StepResult()
