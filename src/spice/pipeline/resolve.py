"""Resolves settings before anything is computed: fills in, once, what the user left open."""

from collections.abc import Mapping
from pathlib import Path

import torch
from pydantic import JsonValue, ValidationError

from spice.augment import Plain
from spice.data.images import InColor
from spice.engine.run import Run
from spice.errors import UserError, field_of
from spice.models.encoders import SCRATCH, Encoder, precision_of
from spice.models.networks import stem_for
from spice.models.precision import IMAGES as TRIAL_IMAGES
from spice.models.precision import faster_precision
from spice.pipeline.work import Inputs
from spice.presets import features_on_cpu, with_clusters
from spice.runs.manifest import Manifest
from spice.settings import AugmentSettings, FeatureSettings, FixedPrecision, RunSettings
from spice.stages.groups.howmany import MIN_IMAGES
from spice.stages.heads.inputs import batch_size, epochs_for
from spice.stages.reliability import reliability_neighbors

# Default image size for training a feature model, in pixels; with this size, a CPU needs minutes.
SCRATCH_SIZE = 32
# With fewer images, trying the encoder's precisions takes longer than it saves.
WORTH_A_TRIAL = 300


def resolve(settings: RunSettings, inputs: Inputs, encoder: Encoder | None, found: int | None = None) -> RunSettings:
    """The settings with everything that depends on the images and the encoder; refuses K > N / 2 early.

    Args:
        encoder: None if stage 1 has to train it first.
        found: the number of clusters that was found, if it was not given.
    """
    images = len(inputs.collection)
    if images < 4:
        raise UserError(f"need at least 4 images (2 per group), got {images}")
    if settings.how_many is not None and images < MIN_IMAGES:
        raise UserError(f"{images} images are too few to find the number of groups; set it with -k")
    if found is not None:
        settings = settings.model_copy(update={"heads": with_clusters(settings.heads, found)})
    sample = settings.views.sample if images > (settings.views.sample or images) else None
    batch = batch_size(sample or images, settings.heads)
    epochs = epochs_for(sample or images, batch, settings.heads)
    shares = settings.heads.shares or (1 / settings.heads.clusters,)
    neighbors = reliability_neighbors(images, round(1 / min(shares)), settings.reliability)
    return settings.model_copy(
        update={
            "size": working_size(settings, encoder),
            "precision": precision_of(encoder),
            "features": _features(settings, inputs) if settings.encoder == SCRATCH else None,
            "features_changes": {},
            "views": settings.views.model_copy(update={"sample": sample}),
            "heads": settings.heads.model_copy(update={"batch": batch, "epochs": epochs}),
            "reliability": settings.reliability.model_copy(update={"neighbors": neighbors}),
        }
    )


def chosen_precision(
    manifest: Manifest, settings: RunSettings, encoder: Encoder, inputs: Inputs, run: Run
) -> FixedPrecision:
    """The encoder's precision: as requested, else as before in this run, else the faster one in a trial."""
    if settings.precision != "auto":
        return settings.precision
    if inputs.embedded is not None:
        return precision_of(encoder)
    before = precision_before(manifest, settings)
    if before is not None:
        return before
    found: FixedPrecision = "float32"
    if inputs.store is not None and len(inputs.store) >= WORTH_A_TRIAL and run.processes.first:
        rows = torch.linspace(0, len(inputs.store) - 1, TRIAL_IMAGES).long()
        plain = Plain(AugmentSettings(), size=encoder.size, normalization=encoder.normalization)
        found = faster_precision(encoder, plain(InColor(inputs.store, encoder.channels).take(rows)))
    integers = run.processes.gather(torch.tensor([found == "int8"], device=run.device).int())[0]
    return "int8" if int(integers) else "float32"


def precision_before(manifest: Manifest, settings: RunSettings) -> FixedPrecision | None:
    """The precision that an earlier command chose for the same encoder."""
    same = [
        requested.get("precision")
        for requested in (manifest.pending, manifest.requested)
        if requested and (requested.get("encoder"), requested.get("size")) == (settings.encoder, settings.size)
    ]
    fixed: tuple[FixedPrecision, ...] = ("float32", "int8")
    return next((known for precision in same for known in fixed if known == precision), None)


def stored_settings(stored: Mapping[str, JsonValue], run: Path, *, advice: str) -> RunSettings:
    """Settings as the run folder keeps them; UserError with advice if another version wrote them."""
    try:
        return RunSettings.model_validate(stored)
    except ValidationError as error:
        raise UserError(f"{run} has settings that this version does not know ({field_of(error)}); {advice}") from None


def working_size(settings: RunSettings, encoder: Encoder | None) -> int:
    """Side of the encoder's input in pixels."""
    return encoder.size if encoder is not None else settings.size or SCRATCH_SIZE


def _features(settings: RunSettings, inputs: Inputs) -> FeatureSettings:
    """Stage 1 as requested, or a default recipe that takes half an hour on a CPU, with the user's changes."""
    assert inputs.store is not None
    size, flip = inputs.store.size, settings.views.augment.flip
    extra = 0 if inputs.extra is None else len(inputs.extra)
    usual = settings.features or features_on_cpu(images=len(inputs.store) + extra, size=size, flip=flip)
    found = FeatureSettings.model_validate(usual.model_dump() | settings.features_changes)
    stem = found.stem or (stem_for(size) if found.network.startswith("resnet") else None)
    return found.model_copy(update={"view_size": found.view_size or size, "stem": stem})
