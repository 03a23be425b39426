"""The whole command in two processes gives the result of one."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spice.runs import open_result, read_labels

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


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["scratch", "lite0"])
def test_two_processes_give_the_labels_of_one(shapes: Path, tmp_path: Path, encoder: str) -> None:
    (tmp_path / "small.toml").write_text(SETTINGS)
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
    two = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "spice"]
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
    assert open_result(tmp_path / "two").refined
    assert (tmp_path / "two" / "report.html").exists()
