"""The map of all images, for the report: shared by all numbers of clusters on the same features."""

from spice.arrays import save_array
from spice.engine.run import Run
from spice.pipeline.work import Work
from spice.report.embedding import embed
from spice.runs.artifacts import MAP
from spice.runs.records import StepResult


def map_images(work: Work, run: Run) -> StepResult:  # noqa: ARG001
    """Embed the features that the labels come from."""
    save_array(work / MAP, work.background.take("map", lambda: embed(work.answer.features.numpy())))
    return StepResult()
