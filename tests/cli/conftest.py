"""A finished run for the commands."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def session_run(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the drawings."""
    from spice.pipeline import cluster
    from spice.presets import standard

    out = tmp_path_factory.mktemp("cli") / "shapes.spice"
    cluster(shapes, standard(clusters=4, size=64), out)
    return out


@pytest.fixture
def run(session_run: Path, tmp_path: Path) -> Path:
    """A copy of it, to be written into."""
    return Path(shutil.copytree(session_run, tmp_path / "shapes.spice", symlinks=True))
