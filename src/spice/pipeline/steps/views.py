"""Features of weak and strong views (III-B): made once, read by every head."""

from typing import Literal

from spice.engine.run import Run
from spice.errors import UserError
from spice.models.encoders import precision_of
from spice.pipeline.work import Work
from spice.runs.records import ViewsResult
from spice.stages.views import encode_views, perturb_features


def views(work: Work, run: Run) -> ViewsResult:
    """Encode augmented images, or add noise to the features of the plain ones."""
    settings, encoder = work.settings.views, work.encoder
    features, distinct = work.features.numpy(), work.inputs.collection.distinct
    here = run.with_folder(work.folders["views"]).with_seed(work.settings.encoder_seed)
    space: Literal["images", "features"] = "features"
    if work.vectors is not None:
        if settings.fresh:
            raise UserError("views.fresh = true needs images, but this run has only features; set it to false")
        perturb_features(features, settings, here)
    elif settings.space == "features" and not settings.fresh:  # fresh views are views of images
        perturb_features(features, settings, here, distinct=distinct)
    else:
        space = "images"
        encode_views(work.images, features, encoder, settings, here, distinct=distinct)
    return ViewsResult(
        encoder=encoder.name, size=encoder.size, width=features.shape[1], space=space, precision=precision_of(encoder)
    )
