"""Features of plain, weak and strong views by the frozen encoder (III-A, III-B): encoded once, read by every head."""

from typing import Literal

from spice.engine.run import Run
from spice.errors import UserError
from spice.models.encoders import precision_of
from spice.pipeline.work import Work
from spice.runs.records import ViewsResult
from spice.stages.views import encode_views, perturb_features


def views(work: Work, run: Run) -> ViewsResult:
    """Encode the views of all images; where there are vectors and no images, add noise to the vectors instead."""
    settings = work.settings.views
    here = run.with_folder(work.folders["views"]).with_seed(work.settings.encoder_seed)
    if work.vectors is not None:
        if settings.fresh:
            raise UserError("views.fresh = true needs images, but this run has only features; set it to false")
        found = perturb_features(work.vectors.numpy(), settings, here)
    else:
        known = None if work.inputs.embedded is None else work.inputs.embedded.take
        distinct = work.inputs.collection.distinct
        found = encode_views(work.images, work.encoder, settings, here, distinct=distinct, known=known)
    encoder, width = work.encoder, found.plain.shape[1]
    space: Literal["images", "features"] = "features"
    if work.vectors is None and (settings.space == "images" or settings.fresh):
        space = "images"
    return ViewsResult(
        encoder=encoder.name, size=encoder.size, width=width, space=space, precision=precision_of(encoder)
    )
