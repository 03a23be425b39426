"""Settings before anything is computed: what the user leaves open is decided here, once, and then stored and hashed."""

from spice.models.encoders import SCRATCH, Encoder
from spice.models.networks import stem_for
from spice.pipeline.work import Inputs
from spice.presets import features_on_cpu
from spice.settings import FeatureSettings, RunSettings
from spice.stages.heads.inputs import batch_size, epochs_for
from spice.stages.reliability import reliability_neighbors

# Pixels on a side of images that a feature model is trained on, unless told otherwise: what a CPU can do in minutes.
SCRATCH_SIZE = 32


def resolve(settings: RunSettings, inputs: Inputs, encoder: Encoder | None) -> RunSettings:
    """The settings with all that depends on the images and the encoder; refuses K > N / 2 before the long work.

    Args:
        encoder: None where stage 1 has yet to train it.
    """
    images = len(inputs.collection)
    batch = batch_size(images, settings.heads)
    epochs = epochs_for(images, batch, settings.heads)
    neighbors = reliability_neighbors(images, settings.heads.clusters, settings.reliability)
    return settings.model_copy(
        update={
            "size": working_size(settings, encoder),
            "features": _features(settings, inputs) if settings.encoder == SCRATCH else None,
            "features_changes": {},
            "heads": settings.heads.model_copy(update={"batch": batch, "epochs": epochs}),
            "reliability": settings.reliability.model_copy(update={"neighbors": neighbors}),
        }
    )


def working_size(settings: RunSettings, encoder: Encoder | None) -> int:
    """Pixels on a side that the encoder is shown."""
    return encoder.size if encoder is not None else settings.size or SCRATCH_SIZE


def _features(settings: RunSettings, inputs: Inputs) -> FeatureSettings:
    """Stage 1 as asked for, or as a CPU can do it in half an hour; with the changes that the user makes to that."""
    assert inputs.store is not None
    size, flip = inputs.store.size, settings.views.augment.flip
    extra = 0 if inputs.extra is None else len(inputs.extra)
    usual = settings.features or features_on_cpu(images=len(inputs.store) + extra, size=size, mirror=flip)
    found = FeatureSettings.model_validate(usual.model_dump() | settings.features_changes)
    stem = found.stem or (stem_for(size) if found.network.startswith("resnet") else None)
    return found.model_copy(update={"view_size": found.view_size or size, "stem": stem})
