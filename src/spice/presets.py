"""Settings filled in for a purpose: a quick look, the paper's data sets, the authors' code."""

from spice.settings import HeadSettings, RunSettings


def standard(*, clusters: int, encoder: str = "lite0", size: int | None = None, seed: int = 0) -> RunSettings:
    """What `spice cluster` does unless told otherwise."""
    return RunSettings(encoder=encoder, size=size, heads=HeadSettings(clusters=clusters), seed=seed)
