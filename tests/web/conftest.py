"""A run to open, and the explorer on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from explored_runs import make_explored_run
from serving import Explorer, served

from spice.runs import Result


@pytest.fixture
def run(tmp_path: Path) -> Result:
    return make_explored_run(tmp_path / "run")


@pytest.fixture
def explorer(run: Result) -> Iterator[Explorer]:
    with served(run.run) as explorer:
        yield explorer


@pytest.fixture
def inside(explorer: Explorer) -> Explorer:
    explorer.enter()
    return explorer
