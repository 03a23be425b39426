"""What all tests share."""

import os
from pathlib import Path

import pytest

# One thread: the machine is shared, and results must not depend on how many threads it has.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets beside the repository, or a skip where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not here (looked for {folder})")
    return folder
