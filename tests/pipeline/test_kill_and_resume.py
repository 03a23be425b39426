"""A run that is killed at any moment and gone on with ends as if it had never been killed."""

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

# Every kill costs the rest of a run; SPICE_KILLS=30 is the thorough version.
KILLS = int(os.environ.get("SPICE_KILLS", "5"))

# One process imports everything, then forks a child for each run: what is killed is a whole process all the same.
RUNNER = """
import json, os, signal, sys, time
from pathlib import Path
import spice.pipeline, spice.presets

source, root = Path(sys.argv[1]), Path(sys.argv[2])
settings = spice.presets.standard(clusters=4, size=32, seed=0)

def start(out):
    child = os.fork()
    if child == 0:
        try:
            spice.pipeline.cluster(source, settings, out)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    return child

def finish(out):
    began = time.monotonic()
    _, status = os.waitpid(start(out), 0)
    assert status == 0, status
    return time.monotonic() - began

print(json.dumps(finish(root / "whole")), flush=True)
for line in sys.stdin:
    name, delay = json.loads(line)
    child = start(root / name)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    manifest = root / name / "manifest.json"
    done = list(json.loads(manifest.read_text())["steps"]) if manifest.exists() else []
    finish(root / name)
    print(json.dumps([os.WIFSIGNALED(status), done]), flush=True)
"""


def digest(run: Path) -> dict[str, str]:
    """Everything that a result is: not the manifest and the page, which tell times, nor the store, which is in order
    of reading.
    """
    files = [path for path in run.rglob("*") if path.is_file() and "store" not in path.relative_to(run).parts]
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name not in (".lock", "manifest.json", "report.html")
    }


@pytest.mark.slow
def test_a_killed_run_ends_as_if_it_had_never_been_killed(shapes: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUNNER, str(shapes), str(tmp_path)]
    moments = random.Random(0)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdin is not None
        assert runner.stdout is not None
        whole = json.loads(runner.stdout.readline())
        seen, killed = set(), 0
        for number in range(KILLS):
            # Spread over the whole run: one moment, drawn at random, in each of KILLS equal parts.
            delay = whole * (number + moments.random()) / KILLS
            runner.stdin.write(json.dumps([f"killed-{number}", delay]) + "\n")
            runner.stdin.flush()
            was_killed, done = json.loads(runner.stdout.readline())
            killed += was_killed
            seen.add(len(done))
            assert digest(tmp_path / f"killed-{number}") == digest(tmp_path / "whole"), (number, delay, done)
        runner.stdin.close()
    assert killed >= KILLS // 2, "the runs ended before they could be killed"
    assert len(seen) > 1, "all kills fell into one step"


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
    assert any(words in result.stdout for words in ("is full", "no room", "cannot be written"))
    assert (tmp_path / "run" / "labels.csv").exists()
