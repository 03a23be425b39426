"""The whole command in two processes gives the result of one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from small_settings import with_few_heads

from spice import arrays
from spice.pipeline import cluster
from spice.presets import standard
from spice.runs import open_result, read_labels
from spice.runs.artifacts import FEATURES
from spice.runs.edits import read_edits

TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
SETTINGS = """
[features]
method = "simclr"
network = "resnet10"
stem = "plain"
width = 8
epochs = 2
batch = 32
view_size = 12
early_view_size = 12

[heads]
heads = 4
epochs = 4

[reliability]
threshold = 0.3

[joint]
steps = 4
labeled = 8
unlabeled = 8
checks = false
"""

# `spice`, with arrays in several files from 64 KiB on. The second process lists the files that it opens for writing.
IN_PIECES = """
import os
import sys
from pathlib import Path

from spice import arrays
from spice.cli import main

written = Path(os.environ["WRITTEN"]).open("w", buffering=1)

def note(event, given):
    if event == "open" and given[2] & (os.O_WRONLY | os.O_RDWR):
        written.write(f"{given[0]}\\n")

if os.environ["RANK"] == "1":
    sys.addaudithook(note)
arrays.PIECE_BYTES = 64 << 10
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["scratch", "lite0"])
def test_two_processes_give_the_labels_of_one(shapes: Path, tmp_path: Path, encoder: str) -> None:
    (tmp_path / "small.toml").write_text(SETTINGS)
    (tmp_path / "in_pieces.py").write_text(IN_PIECES)
    arguments = [
        "cluster",
        str(shapes),
        "-k",
        "4",
        "--encoder",
        encoder,
        "--size",
        "16" if encoder == "scratch" else "32",
    ]
    arguments += ["--settings", str(tmp_path / "small.toml"), "--device", "cpu"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "WRITTEN": str(tmp_path / "written.txt")}
    two = [sys.executable, *TWO, str(tmp_path / "in_pieces.py")]
    for name, command in {"one": [sys.executable, "-m", "spice"], "two": two}.items():
        done = subprocess.run(
            [*command, *arguments, "--out", str(tmp_path / name)],
            env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("images     96") == 1, "one process speaks"
    run = tmp_path / "two"
    written = {
        Path(line).relative_to(run) for line in (tmp_path / "written.txt").read_text().splitlines() if str(run) in line
    }
    shared = {path.parts[1].partition("-")[0] for path in written if path.parts[0] == "steps"}
    assert shared == {"encode", "views"}, "its share of the encoding"
    assert {path.parts[0] for path in written} == {"steps", "store"}, "the first process writes everything else"
    one, other = read_labels(tmp_path / "one"), read_labels(tmp_path / "two")
    if encoder == "lite0":  # no network is trained from scratch: sums over two halves of a batch round a little
        np.testing.assert_array_equal(one.cluster, other.cluster)
        np.testing.assert_allclose(one.confidence, other.confidence, atol=1e-3)
    result = open_result(tmp_path / "two")
    assert result.refined
    assert bool(arrays.further_pieces(result / FEATURES)) == (encoder == "lite0"), "96 images of 1,280 numbers"
    assert (tmp_path / "two" / "report.html").exists()


@pytest.mark.slow
def test_labels_given_to_several_processes_are_edits_of_one(shapes: Path, tmp_path: Path) -> None:
    settings = with_few_heads(standard(clusters=4, size=32), heads=4, epochs=4)
    cluster(shapes, settings, tmp_path / "one", page=False)
    shutil.copytree(tmp_path / "one", tmp_path / "two", symlinks=True)
    names = [f"{kind}/{number}.png,{kind}" for kind in ("disc", "bars", "tent", "ring") for number in range(3)]
    (tmp_path / "some.csv").write_text("\n".join(["path,label", *names]))
    (tmp_path / "short.toml").write_text("[joint]\nsteps = 2\nlabeled = 8\nunlabeled = 8\nchecks = false\n")
    options = ["--labels", "some.csv", "--split", "--settings", "short.toml", "--device", "cpu"]
    for name, command in {"one": ["-m", "spice"], "two": [*TWO, "-m", "spice"]}.items():
        done = subprocess.run(
            [sys.executable, *command, "refine", name, *options],
            cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("edits from some.csv") == 1, done.stderr
        assert open_result(tmp_path / name).refined
    one, two = (read_edits(tmp_path / name).edits for name in ("one", "two"))
    assert one
    assert [edit.operation for edit in one] == [edit.operation for edit in two]
    np.testing.assert_array_equal(read_labels(tmp_path / "one").cluster, read_labels(tmp_path / "two").cluster)


FAILING = """
import sys
from pathlib import Path
from spice.pipeline import cluster
from spice.pipeline.steps import report
from spice.presets import standard

def fail(*_):
    raise KeyError("no page today")

report.write_report = fail
settings = standard(clusters=4, size=32)
settings = settings.model_copy(update={"heads": settings.heads.model_copy(update={"heads": 2, "epochs": 2})})
summary = cluster(Path(sys.argv[1]), settings, Path(sys.argv[2]), device="cpu")
named = [warning.name for warning in summary.warnings if warning.name == "NoPageWarning"]
sys.stdout.write(f"{named}\\n")  # at once, where `print` lets the other process come between words and line end
"""


@pytest.mark.slow
def test_a_page_that_fails_ends_no_process(shapes: Path, tmp_path: Path, two_processes: Callable[..., str]) -> None:
    said = two_processes(FAILING, str(shapes), str(tmp_path / "run"))
    assert sorted(said.splitlines()) == ["['NoPageWarning']", "[]"], "the first process warns, and both end well"
    assert (tmp_path / "run" / "labels.csv").exists()
    assert not (tmp_path / "run" / "report.html").exists()
