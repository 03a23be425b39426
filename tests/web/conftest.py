"""A run to open, the explorer on it, and a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import COMMAND, Page, chromium
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


@pytest.fixture(scope="session")
def browser() -> Iterator[Page]:
    if COMMAND is None:
        pytest.skip("there is no chromium here; scripts/install-chromium.sh installs it")
    with chromium() as page:
        yield page
