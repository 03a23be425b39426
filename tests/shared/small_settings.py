"""Settings with which a run takes seconds: where the run is tested, and not the clustering."""

from spice.presets import standard
from spice.settings import FeatureSettings, JointSettings, RunSettings


def with_few_heads(settings: RunSettings, *, heads: int, epochs: int, **more: object) -> RunSettings:
    """The same settings with few heads, which train for few epochs; `more` are other settings of heads."""
    few = settings.heads.model_copy(update={"heads": heads, "epochs": epochs, **more})
    return settings.model_copy(update={"heads": few})


def tiny_stages(
    *,
    clusters: int = 4,
    feature_epochs: int,
    heads: int,
    epochs: int,
    threshold: float,
    joint: JointSettings | None = None,
    encoder: str = "scratch",
    size: int = 16,
    **more: object,
) -> RunSettings:
    """All stages, with a network that trains in a second; the threshold leaves some images reliable all the same."""
    usual = with_few_heads(standard(clusters=clusters, encoder=encoder, size=size), heads=heads, epochs=epochs, **more)
    features = FeatureSettings(
        method="simclr", network="resnet10", stem="plain", width=8, epochs=feature_epochs, batch=32
    )
    reliability = usual.reliability.model_copy(update={"threshold": threshold})
    return usual.model_copy(update={"features": features, "reliability": reliability, "joint": joint})
