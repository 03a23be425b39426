"""Sources that several machines can read: tars in shards, object storage, and what is sent to a worker."""

import importlib.util
import io
import json
import pickle
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from PIL import Image

from spice.data import ingest
from spice.data.recognize import open_source
from spice.data.remote import Remote
from spice.errors import UserError


def drawn(color: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (9, 9), (color, 255 - color, 40)).save(file, "PNG")
    return file.getvalue()


def write_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


@pytest.fixture
def webdataset(tmp_path: Path) -> str:
    for shard in range(2):
        members: dict[str, bytes] = {}
        for number in range(3):
            members[f"{number}.cls"] = b"7"
            members[f"{number}.png"] = drawn(40 * shard + 10 * number)
            members[f"{number}.json"] = json.dumps({"label": 7}).encode()
        write_tar(tmp_path / f"train-{shard}.tar", members)
    return str(tmp_path / "train-*.tar")


def test_tars_in_shards_are_one_collection_of_their_images(webdataset: str, tmp_path: Path) -> None:
    store = ingest(webdataset, size=8, folder=tmp_path / "store")
    expected = {f"train-{shard}.tar/{number}.png" for shard in range(2) for number in range(3)}
    assert set(store.collection.paths) == expected
    assert not store.collection.problems
    by_path = dict(zip(store.collection.paths, range(6), strict=True))
    for shard in range(2):
        for number in range(3):
            red = store.take([by_path[f"train-{shard}.tar/{number}.png"]])[0, 0, 4, 4]
            assert int(red) == 40 * shard + 10 * number


def test_a_source_reads_the_same_in_another_process(webdataset: str) -> None:
    for name in (webdataset, webdataset.replace("*", "0")):
        source = open_source(name)
        entries = [entry for entry in source.listing()[0] if entry.name.endswith(".png")]
        sent = pickle.loads(pickle.dumps(source))
        assert [sent.read(entry) for entry in entries] == [source.read(entry) for entry in entries]


def test_an_address_is_read_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "images" / "deep").mkdir(parents=True)
    (tmp_path / "images" / "a.png").write_bytes(drawn(1))
    (tmp_path / "images" / "deep" / "b.png").write_bytes(drawn(2))
    (tmp_path / "images" / "c.png").write_bytes(b"")
    source = pickle.loads(pickle.dumps(open_source(f"file://{tmp_path}/images")))
    assert isinstance(source, Remote)
    store = ingest(source, size=8, folder=tmp_path / "store")
    assert sorted(store.collection.paths) == ["a.png", "deep/b.png"]
    assert [problem.path for problem in store.collection.problems] == ["c.png"]
    with pytest.raises(UserError, match="cannot be listed"):
        open_source(f"file://{tmp_path}/nowhere").listing()


@pytest.mark.slow
def test_images_in_object_storage_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("moto") is None:
        pytest.skip("moto, an S3 server for tests, is not installed")
    from pyarrow import fs

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, value in (("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")):
        monkeypatch.setenv(name, value)
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(port)
        where = f"endpoint_override=127.0.0.1:{port}&scheme=http&allow_bucket_creation=true&region=us-east-1"
        files, _ = fs.FileSystem.from_uri(f"s3://photos?{where}")
        files.create_dir("photos")
        for number in range(3):
            with files.open_output_stream(f"photos/album/{number}.png") as file:
                file.write(drawn(50 * number))
        store = ingest(f"s3://photos/album?{where}", size=8, folder=tmp_path / "store")
        assert sorted(store.collection.paths) == ["0.png", "1.png", "2.png"]
        assert not store.collection.problems
    finally:
        server.terminate()
        server.wait(timeout=20)


def _wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("the S3 server did not start")
