"""Exported networks of the tests go to a folder of their own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for every test, so that none is served what another exported."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("SPICE_CACHE", str(folder))
    return folder
