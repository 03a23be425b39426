"""What the report shows of images: thumbnails, attention overlays."""

import numpy as np
import torch

from spice.engine.run import Run
from spice.pipeline.work import Work
from spice.report.chosen import choose, with_attention
from spice.report.pictures import Attention, write_pictures
from spice.runs.artifacts import PICTURES, PROBABILITIES
from spice.runs.labels import read_labels
from spice.runs.records import StepResult
from spice.stages.attention import attention_of


def pictures(work: Work, run: Run) -> StepResult:
    """Draw them."""
    found, source = read_labels(work.folders["labels"]), work.answer
    chosen = choose(found, work.settings.heads.clusters)
    rows = np.concatenate(with_attention(chosen))
    probs = torch.from_numpy(np.load(work / PROBABILITIES))
    seen = attention_of(rows, images=work.images, encoder=source.encoder, features=source.features, probs=probs)
    write_pictures(
        work / PICTURES,
        lambda rows: work.images.take(rows).numpy(),
        images=len(found.path),
        side=work.images.size,
        on_cards=np.concatenate([rows for kinds in chosen for rows in kinds]),
        attention=(Attention(row, places.numpy()) for row, places in seen),
        progress=run.progress,
    )
    return StepResult()
