"""A few hundred damaged files on every run; benchmarks/fuzz_decode.py makes them by the ten thousand."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz_decode.py"


@pytest.mark.skipif(sys.platform == "win32", reason="limits on memory and time are set as on Unix")
@pytest.mark.parametrize("seed", [1])
def test_damaged_files_end_in_pixels_or_a_reason(seed: int) -> None:
    command = [sys.executable, str(SCRIPT), "--cases", "600", "--seed", str(seed)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "no crash, no hang" in ended.stdout
    for outcome in ("used", "truncated", "unreadable", "not an image"):
        assert outcome in ended.stdout
