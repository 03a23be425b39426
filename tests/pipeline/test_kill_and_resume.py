"""A run that is killed at any moment and gone on with ends as if it had never been killed."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills and limits are of POSIX systems")

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "kill_and_resume.py"
# Two runs of each kind here; by default the script makes ten.
RUNS, KILLS = 2, 3


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["scratch", "lite0"])
def test_a_killed_run_ends_as_if_it_had_never_been_killed(tmp_path: Path, encoder: str) -> None:
    arguments = ["--runs", str(RUNS), "--kills", str(KILLS), "--encoder", encoder, "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=550, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{RUNS} of {RUNS} runs gave identical results, bit for bit" in done.stdout


FULL = """
import resource, signal, sys
from pathlib import Path
import spice.pipeline, spice.presets
from spice.errors import UserError

source, out, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
settings = spice.presets.standard(clusters=4, size=32, seed=0)
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
try:
    spice.pipeline.cluster(source, settings, out)
except UserError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
spice.pipeline.cluster(source, settings, out)
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20_000, 600_000])  # no room for the images, for the views
def test_a_disk_that_fills_up_is_one_line_and_costs_nothing_finished(shapes: Path, tmp_path: Path, limit: int) -> None:
    command = [sys.executable, "-c", FULL, str(shapes), str(tmp_path / "run"), str(limit)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 1
    assert any(words in result.stdout for words in ("not enough disk space", "cannot be written"))
    assert (tmp_path / "run" / "labels.csv").exists()
