"""The classes that the built-in encoders' own classifier predicts for every image, for suggested names."""

import numpy as np
import torch

from spice.arrays import save_npz
from spice.engine.run import Run
from spice.models.efficientnet import SCALES, load_classifier
from spice.pipeline.work import Work
from spice.runs.artifacts import WORDS
from spice.runs.records import StepResult
from spice.runs.suggested_names import CLASSES_KEPT, ImageWords

_AT_ONCE = 4096


def words(work: Work, run: Run) -> StepResult:  # noqa: ARG001
    """Save the best classes of every image; there are none for vectors."""
    if work.vectors is not None:
        return StepResult()
    assert work.settings.encoder in SCALES
    classify = load_classifier(work.settings.encoder)
    best = [classify(part).softmax(dim=1).topk(CLASSES_KEPT, dim=1) for part in torch.split(work.features, _AT_ONCE)]
    index = torch.cat([part.indices for part in best]).numpy().astype(np.uint16)
    share = torch.cat([part.values for part in best]).numpy().astype(np.float16)
    save_npz(work / WORDS, ImageWords(index, share)._asdict())
    return StepResult()
