"""Stage 1: a feature model trained on these images and nothing else (III-A). Only with `--encoder scratch`."""

from spice.engine.run import Run
from spice.models.weights import save_network
from spice.pipeline.work import Work
from spice.runs.artifacts import ENCODER
from spice.runs.records import FeaturesResult
from spice.stages.features.train import train_features


def features(work: Work, run: Run) -> FeaturesResult:
    """Train the feature model."""
    settings = work.settings.features
    assert settings is not None, "settings are resolved before a step runs"
    trained = train_features(work.learned_images, settings, run.with_seed(work.settings.encoder_seed))
    if run.processes.first:
        save_network(work / ENCODER, trained.network, trained.card)
    return FeaturesResult(
        method=settings.method,
        network=settings.network,
        epochs=settings.epochs,
        alignment=[round(epoch.alignment, 4) for epoch in trained.health],
        uniformity=[round(epoch.uniformity, 4) for epoch in trained.health],
    )
