"""The nearest images of every image by the frozen features (III-C): shared by all numbers of clusters."""

from spice.arrays import save_array
from spice.engine.run import Run
from spice.neighbors import nearest_with_recall, warn_of_blank
from spice.pipeline.work import Work
from spice.runs.artifacts import NEIGHBORS, SIMILARITIES
from spice.runs.records import NeighborsResult
from spice.settings import RunSettings
from spice.stages.reliability import PAPER_NEIGHBORS


def neighbors(work: Work, run: Run) -> NeighborsResult:
    """Find as many neighbors as any number of clusters may need."""
    warn_of_blank(work.features)
    count = neighbors_kept(len(work), work.settings)
    found, recall = nearest_with_recall(work.features, count, progress=run.progress)
    save_array(work / SIMILARITIES, found.similarity.numpy())
    save_array(work / NEIGHBORS, found.index.numpy())
    return NeighborsResult(neighbors=count, recall=round(recall, 4))


def neighbors_kept(images: int, settings: RunSettings) -> int:
    """How many neighbors of each image are kept: the paper's 100, or more if the settings ask for more."""
    return min(max(PAPER_NEIGHBORS, settings.reliability.neighbors or 0), images - 1)
