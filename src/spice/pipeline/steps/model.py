"""The model, which sorts new images into the same groups."""

import torch

from spice.engine.run import Run
from spice.pipeline.work import Work
from spice.runs.artifacts import MODEL
from spice.runs.labels import read_labels
from spice.runs.records import StepResult
from spice.stages.bank import build_bank
from spice.stages.model import TrainedModel


def model(work: Work, run: Run) -> StepResult:
    """Save the encoder, the head, and features of training images, with which new images are compared."""
    settings, source, count = work.settings, work.answer, work.counted_neighbors
    cluster = torch.from_numpy(read_labels(work.folders["labels"]).cluster).long()
    bank = build_bank(source.features, cluster, clusters=settings.heads.clusters, neighbors=count, seed=run.seed)
    trained = TrainedModel(source.encoder, source.head, bank, threshold=settings.reliability.threshold)
    trained.save(work / MODEL, embed=source.refined)
    return StepResult()
