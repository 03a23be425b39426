"""The whole command in two processes gives the result of one."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spice import arrays
from spice.runs import open_result, read_labels
from spice.runs.artifacts import FEATURES

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

# `spice`, with arrays in several files from 64 KiB on.
IN_PIECES = """
from spice import arrays
from spice.cli import main

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
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    two = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    two.append(str(tmp_path / "in_pieces.py"))
    for name, command in {"one": [sys.executable, "-m", "spice"], "two": two}.items():
        done = subprocess.run(
            [*command, *arguments, "--out", str(tmp_path / name)],
            env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("images     96") == 1, "one process speaks"
    one, other = read_labels(tmp_path / "one"), read_labels(tmp_path / "two")
    if encoder == "lite0":  # no network is trained from scratch: sums over two halves of a batch round a little
        np.testing.assert_array_equal(one.cluster, other.cluster)
        np.testing.assert_allclose(one.confidence, other.confidence, atol=1e-3)
    result = open_result(tmp_path / "two")
    assert result.refined
    assert bool(arrays.further_pieces(result / FEATURES)) == (encoder == "lite0"), "96 images of 1,280 numbers"
    assert (tmp_path / "two" / "report.html").exists()


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
account = cluster(Path(sys.argv[1]), settings, Path(sys.argv[2]), device="cpu")
print([warning.name for warning in account.warnings if warning.name == "NoPageWarning"])
"""


@pytest.mark.slow
def test_a_page_that_fails_ends_no_process(shapes: Path, tmp_path: Path, two_processes: Callable[..., str]) -> None:
    said = two_processes(FAILING, str(shapes), str(tmp_path / "run"))
    assert sorted(said.splitlines()) == ["['NoPageWarning']", "[]"], "the first process warns, and both end well"
    assert (tmp_path / "run" / "labels.csv").exists()
    assert not (tmp_path / "run" / "report.html").exists()
