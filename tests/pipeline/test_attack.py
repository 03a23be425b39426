"""A minute of attacks: damaged runs, hostile files and names, links, and places that cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ATTACK = Path(__file__).resolve().parents[2] / "benchmarks" / "attack.py"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="uses links, limits and signals of POSIX")
def test_no_attack_ends_in_a_traceback_a_hang_or_other_labels() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(ATTACK), "--quick"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for kind in ("damaged files", "hostile content", "links out of the folder", "outputs", "hostile names"):
        assert f"| {kind}" in done.stdout
