"""Features of the images by the frozen encoder (III-A): computed once, for all seeds and numbers of clusters."""

import numpy as np

from spice.arrays import save_array
from spice.engine.run import Run
from spice.pipeline.work import Work
from spice.runs.artifacts import FEATURES
from spice.runs.records import StepResult
from spice.stages.views import encode_features


def encode(work: Work, run: Run) -> StepResult:
    """Encode the images; feature vectors that the user gave are kept as they are."""
    if work.vectors is None:
        known = None if work.inputs.embedded is None else work.inputs.embedded.take
        distinct = work.inputs.collection.distinct
        encode_features(work.images, work.encoder, work / FEATURES, run, distinct=distinct, known=known)
    elif run.processes.first:
        save_array(work / FEATURES, work.vectors.numpy().astype(np.float32, copy=False))
    return StepResult()
