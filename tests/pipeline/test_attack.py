"""A minute of attacks of every kind; benchmarks/attack.py makes them by the thousand."""

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
    kinds = ["corrupted images", "corrupted archives", "damaged files", "hostile content", "links out of the folder"]
    kinds += ["hostile names", "rubbish arguments", "places", "full disk, a limit", "changed and vanished sources"]
    for kind in (*kinds, "two processes", "little memory", "processes of their own"):
        assert f"| {kind}" in done.stdout
