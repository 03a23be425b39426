"""Runs to look at."""

import shutil
from pathlib import Path

import pytest
from pictured_runs import make_pictured_run

from spice.runs import Result, open_result


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Three hundred images in six clusters, the last of them empty; scores, problems, copies, names that could harm."""
    return make_pictured_run(tmp_path_factory.mktemp("small") / "run", images=300, clusters=6)


@pytest.fixture
def run(small: Result, tmp_path: Path) -> Result:
    """A copy of it, to be written into."""
    return open_result(Path(shutil.copytree(small.run, tmp_path / "run", symlinks=True)))


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Twenty thousand images in twenty clusters."""
    return make_pictured_run(tmp_path_factory.mktemp("large") / "run", images=20_000, clusters=20)
