"""Settings filled in for a purpose: a quick look, the paper's data sets, the authors' code."""

from spice.settings import HeadSettings, RunSettings


def standard(*, clusters: int, encoder: str = "lite0", size: int | None = None, seed: int = 0) -> RunSettings:
    """What `spice cluster` does unless told otherwise."""
    return RunSettings(encoder=encoder, size=size, heads=standard_heads(clusters), seed=seed)


def standard_heads(clusters: int) -> HeadSettings:
    """Many small heads that start from k-means: what `docs/results.md` is measured with, and why is said there."""
    return HeadSettings(
        clusters=clusters, heads=30, epochs=15, batch=1000, components=128, start="kmeans", select_every=5
    )
