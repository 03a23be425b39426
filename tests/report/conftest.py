"""A browser, and runs to look at with it."""

from collections.abc import Iterator

import pytest
from browser import COMMAND, Page, chromium
from pictured_runs import make_pictured_run

from spice.runs import Result


@pytest.fixture(scope="session")
def browser() -> Iterator[Page]:
    if COMMAND is None:
        pytest.skip("there is no chromium here; scripts/install-chromium.sh installs it")
    with chromium() as page:
        yield page


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Three hundred images in six clusters, the last of them empty; scores, problems, copies, names that could harm."""
    return make_pictured_run(tmp_path_factory.mktemp("small") / "run", images=300, clusters=6)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Twenty thousand images in twenty clusters."""
    return make_pictured_run(tmp_path_factory.mktemp("large") / "run", images=20_000, clusters=20)
