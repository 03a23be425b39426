"""Images in object storage, on a server for the protocol of S3 that listens on this machine alone."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pyarrow import fs

from spice.runs import Result, open_result

server = pytest.importorskip("moto.server", reason="moto is not installed")
pytestmark = pytest.mark.slow

PHOTOS = 40
SETTINGS = """
precision = "float32"

[heads]
heads = 3
epochs = 3
"""


@pytest.fixture(scope="module")
def photos(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 JPEGs in three folders, and a file that is no image."""
    folder = tmp_path_factory.mktemp("storage") / "photos"
    drawn = sorted(shapes.rglob("*.png"))
    for number, path in enumerate(drawn[:: len(drawn) // PHOTOS][:PHOTOS]):
        place = folder / str(number % 3) / f"{number:02d}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.open(path).convert("RGB").save(place, quality=90)
    (folder / "notes.txt").write_text("no image")
    return folder


@pytest.fixture
def bucket(photos: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the same files in a bucket."""
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    known = {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "y", "DEFAULT_REGION": "us-east-1"}
    for name, value in (known | {"EC2_METADATA_DISABLED": "true", "ENDPOINT_URL": f"http://{host}:{port}"}).items():
        monkeypatch.setenv(f"AWS_{name}", value)
    storage = fs.S3FileSystem(endpoint_override=f"{host}:{port}", scheme="http", allow_bucket_creation=True)
    storage.create_dir("bucket")
    fs.copy_files(str(photos), "bucket/photos", destination_filesystem=storage)
    yield "s3://bucket/photos"
    running.stop()


def clustered(source: str, out: Path, *options: str) -> Result:
    """The real command."""
    (out.parent / "small.toml").write_text(SETTINGS)
    arguments = [source, "-k", "4", "--size", "32", "--settings", str(out.parent / "small.toml"), "--out", str(out)]
    command = [sys.executable, "-m", "spice", "cluster", *arguments, "--no-open", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return open_result(out)


@pytest.fixture(scope="module")
def expected(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    return clustered(str(photos), tmp_path_factory.mktemp("files") / "run")


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_images_in_a_bucket_give_what_the_same_files_give(
    engine: str, bucket: str, expected: Result, tmp_path: Path
) -> None:
    if engine == "ray":
        pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    found = clustered(bucket, tmp_path / "bucket", "--engine", engine)
    assert len(found.labels.path) == PHOTOS
    assert found.labels.path == expected.labels.path
    np.testing.assert_array_equal(found.answer_features, expected.answer_features)
    np.testing.assert_array_equal(found.labels.cluster, expected.labels.cluster)
    np.testing.assert_array_equal(found.labels.chance, expected.labels.chance)
    assert found.scan.skipped == expected.scan.skipped
    assert found.scan.problems == 1
