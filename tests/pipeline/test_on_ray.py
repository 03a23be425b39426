"""Several machines, as nodes of a Ray cluster on this one: the same features and labels, whatever happens to a node."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_settings import with_few_heads

from spice.pipeline import cluster
from spice.presets import standard
from spice.runs import Result, open_result
from spice.runs.artifacts import PROBLEMS
from spice.settings import RunSettings

ray = pytest.importorskip("ray", reason="the extra `cluster` is not installed")
pytestmark = pytest.mark.slow


def settings() -> RunSettings:
    usual = with_few_heads(standard(clusters=4, size=32), heads=3, epochs=3)
    return usual.model_copy(update={"precision": "float32"})


@pytest.fixture(scope="module")
def images(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawings with their names, an exact copy, and two files that are no images."""
    folder = tmp_path_factory.mktemp("images") / "images"
    folder.mkdir()
    drawn = sorted(path for path in shapes.rglob("*") if path.is_file())
    for number, path in enumerate(drawn):
        (folder / f"{number:03d}{path.suffix}").write_bytes(path.read_bytes())
    (folder / "copy.png").write_bytes(drawn[0].read_bytes())
    (folder / "broken.png").write_bytes(drawn[0].read_bytes()[:60])
    (folder / "empty.jpg").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def local(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("local") / "run"
    cluster(str(images), settings(), out, page=False)
    return open_result(out)


@pytest.fixture
def two_nodes() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def features_by_path(result: Result) -> dict[str, bytes]:
    return {path: row.tobytes() for path, row in zip(result.labels.path, result.answer_features, strict=True)}


def assert_same(result: Result, local: Result) -> None:
    assert result.labels.path == local.labels.path  # nothing lost, nothing doubled
    assert features_by_path(result) == features_by_path(local)
    np.testing.assert_array_equal(result.labels.cluster, local.labels.cluster)
    np.testing.assert_array_equal(result.labels.chance, local.labels.chance)
    assert result.scan == local.scan
    assert (result / PROBLEMS).read_text() == (local / PROBLEMS).read_text()


def test_two_machines_give_what_one_process_gives_even_if_one_dies(
    two_nodes: Any, images: Path, local: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spice.pipeline import on_ray

    second = two_nodes.add_node(num_cpus=1)
    monkeypatch.setattr(on_ray, "BATCH", 8)
    cluster(str(images), settings(), tmp_path / "two", page=False, engine="ray", address=two_nodes.address)
    assert_same(open_result(tmp_path / "two"), local)

    killed, answers = False, on_ray._answers

    def watched(*given: Any) -> Iterator[Any]:
        nonlocal killed
        for answer in answers(*given):
            if not killed:
                killed = True
                two_nodes.remove_node(second, allow_graceful=False)  # as if its power were cut
            yield answer

    monkeypatch.setattr(on_ray, "_answers", watched)
    cluster(str(images), settings(), tmp_path / "one", page=False, engine="ray", address=two_nodes.address)
    assert killed
    assert_same(open_result(tmp_path / "one"), local)


def test_two_processes_of_torchrun_train_on_what_a_cluster_embedded(
    images: Path, local: Result, two_processes: Callable[..., str], tmp_path: Path
) -> None:
    cluster(str(images), settings(), tmp_path / "run", last="features", engine="ray", device="cpu")
    two_processes("from spice.cli import main; main()", "resume", str(tmp_path / "run"), "--device", "cpu")
    result = open_result(tmp_path / "run")
    assert result.labels.path == local.labels.path
    assert features_by_path(result) == features_by_path(local)
    np.testing.assert_array_equal(result.labels.cluster, local.labels.cluster)


def test_a_killed_command_resumes_with_the_same_labels() -> None:
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "scale.py"
    arguments = ["kills", "--engine", "ray", "--kills", "1", "--count", "200"]
    done = subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 gave the same labels of 200 images; 1 kills landed" in done.stdout
