"""Pictures for the report: thumbnails and attention overlays."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from spice.arrays import open_array
from spice.engine.run import Run
from spice.pipeline.work import Work
from spice.report.card_images import choose_images, with_attention
from spice.report.pictures import Attention, write_pictures
from spice.runs.artifacts import PICTURES, PROBABILITIES
from spice.runs.labels import read_labels
from spice.runs.records import StepResult
from spice.stages.attention import attention_maps


def pictures(work: Work, run: Run) -> StepResult:
    """Draw the pictures."""
    found, source = read_labels(work.folders["labels"]), work.answer
    chosen = choose_images(found, work.settings.heads.clusters)
    rows = np.concatenate(with_attention(chosen))
    probs = torch.from_numpy(open_array(work / PROBABILITIES, "c"))
    images = work.page_images
    seen: Iterable[tuple[int, Tensor]] = ()
    if work.inputs.pictures is None:  # pictures of vectors were not encoded
        seen = attention_maps(rows, images=images, encoder=source.encoder, features=source.features, probs=probs)
    write_pictures(
        work / PICTURES,
        lambda rows: images.take(torch.from_numpy(rows)).numpy(),
        images=len(found.path),
        side=images.size,
        on_cards=np.concatenate([rows for kinds in chosen for rows in kinds]),
        large=np.concatenate([kinds.prototypes for kinds in chosen]),
        attention=(Attention(row, places.numpy()) for row, places in seen),
        sharp=work.images.sharp if work.inputs.pictures is None else None,
        progress=run.progress,
    )
    return StepResult()
