"""A download ends whole and checked, or says in words what happened, and then goes on from there."""

import hashlib
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from spice.benchmark.datasets.catalog import Remote
from spice.benchmark.datasets.download import download
from spice.errors import UserError

if TYPE_CHECKING:
    from tests.benchmark.conftest import Host

CONTENT = np.random.default_rng(0).bytes(700_000)
NO_WAIT = (0.0, 0.0)


@pytest.fixture
def remote(host: "Host") -> Remote:
    host.files["data.tgz"] = CONTENT
    return Remote(f"{host.address}/data.tgz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def test_a_file_arrives_whole_and_is_not_fetched_twice(host: "Host", remote: Remote, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def progress(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
        assert task == "data.tgz (kB)"
        seen.append((done, total))

    target = download(remote, tmp_path / "new" / "folder", progress=progress)
    assert target.read_bytes() == CONTENT
    assert seen[0] == (0, 700)
    assert seen[-1] == (700, 700)
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert list(target.parent.iterdir()) == [target]
    download(remote, target.parent)
    assert host.requests == [None]


def test_a_wrong_checksum_is_refused_and_the_file_removed(host: "Host", remote: Remote, tmp_path: Path) -> None:
    host.files["data.tgz"] = b"x" + CONTENT[1:]
    with pytest.raises(UserError, match=f"checksum .*, expected {remote.sha256}; the download was deleted"):
        download(remote, tmp_path)
    assert list(tmp_path.iterdir()) == []
    host.files["data.tgz"] = CONTENT
    assert download(remote, tmp_path).read_bytes() == CONTENT


def test_a_cut_connection_goes_on_where_it_stopped(host: "Host", remote: Remote, tmp_path: Path) -> None:
    host.cuts = [300_000, 0, 250_000]
    assert download(remote, tmp_path, waits=NO_WAIT).read_bytes() == CONTENT
    assert host.requests == [None, "bytes=300000-", "bytes=300000-", "bytes=550000-"]


def test_what_was_given_up_goes_on_with_the_next_command(host: "Host", remote: Remote, tmp_path: Path) -> None:
    host.cuts = [300_000]
    with pytest.raises(UserError, match=r"stopped after 0\.3 of 0\.7 MB \(the connection was lost\): run the same"):
        download(remote, tmp_path, waits=())
    assert [path.name for path in tmp_path.iterdir()] == ["data.tgz.partial"]
    assert download(remote, tmp_path, waits=()).read_bytes() == CONTENT
    assert host.requests == [None, "bytes=300000-"]


def test_giving_up_comes_after_tries_that_bring_nothing(host: "Host", remote: Remote, tmp_path: Path) -> None:
    host.cuts = [100_000, 100_000, 100_000, 0, 0]
    with pytest.raises(UserError, match=r"stopped after 0\.3 of 0\.7 MB"):
        download(remote, tmp_path, waits=NO_WAIT)
    assert len(host.requests) == 5


def test_a_server_without_range_starts_over(host: "Host", remote: Remote, tmp_path: Path) -> None:
    host.knows_range = False
    host.cuts = [300_000]
    assert download(remote, tmp_path, waits=NO_WAIT).read_bytes() == CONTENT
    assert host.requests == [None, "bytes=300000-"]


def test_a_beginning_that_belongs_to_another_file_is_noticed(host: "Host", remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "data.tgz.partial").write_bytes(b"of another version")
    with pytest.raises(UserError, match="checksum"):
        download(remote, tmp_path)
    assert download(remote, tmp_path).read_bytes() == CONTENT
    assert host.requests == ["bytes=18-", None]


def test_a_beginning_that_is_too_long_is_dropped(host: "Host", remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "data.tgz.partial").write_bytes(CONTENT + b"more")
    assert download(remote, tmp_path).read_bytes() == CONTENT
    assert host.requests == [None]


def test_a_whole_beginning_is_only_checked(host: "Host", remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "data.tgz.partial").write_bytes(CONTENT)  # killed between the last byte and the new name
    assert download(remote, tmp_path).read_bytes() == CONTENT
    assert host.requests == []


@pytest.mark.parametrize("code", [416, 503])
def test_a_passing_failure_is_tried_again(host: "Host", remote: Remote, tmp_path: Path, code: int) -> None:
    (tmp_path / "data.tgz.partial").write_bytes(CONTENT[:1000])
    host.failures = [code]
    assert download(remote, tmp_path, waits=NO_WAIT).read_bytes() == CONTENT
    assert host.requests == ["bytes=1000-", None if code == 416 else "bytes=1000-"]


@pytest.mark.parametrize(("code", "words"), [(404, "returned 404 Not Found"), (403, "returned 403 Forbidden")])
def test_a_lasting_failure_is_told_at_once(host: "Host", remote: Remote, tmp_path: Path, code: int, words: str) -> None:
    host.failures = [code]
    with pytest.raises(UserError, match=f"{words}: download it yourself and pass it with --from"):
        download(remote, tmp_path)
    assert len(host.requests) == 1


def test_a_file_of_another_size_is_refused_before_it_is_fetched(host: "Host", remote: Remote, tmp_path: Path) -> None:
    host.files["data.tgz"] = CONTENT + b"more"
    with pytest.raises(UserError, match="now has 700,004 bytes, but 700,000 are published"):
        download(remote, tmp_path)
    assert (tmp_path / "data.tgz.partial").stat().st_size == 0


def test_a_server_that_does_not_tell_the_length_is_watched(host: "Host", remote: Remote, tmp_path: Path) -> None:
    host.tells_length = False
    host.files["data.tgz"] = CONTENT + bytes(2_000_000)
    with pytest.raises(UserError, match="sends more than the published 700,000 bytes"):
        download(remote, tmp_path)
    host.files["data.tgz"] = CONTENT
    assert download(remote, tmp_path).read_bytes() == CONTENT


def test_no_network_is_told_in_words(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, but not listening
        remote = Remote(f"http://127.0.0.1:{nobody.getsockname()[1]}/data.tgz", 10, "")
        with pytest.raises(
            UserError, match=r"cannot be reached \(.*refused\): check the network, or download it yourself"
        ):
            download(remote, tmp_path, waits=(0.0,))


def test_a_full_disk_is_told_and_what_arrived_is_kept(host: "Host", remote: Remote, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no limit on the size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, before[1]))
    try:
        with pytest.raises(UserError, match=r"cannot write .*: File too large; free some space, .*is kept"):
            download(remote, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "data.tgz.partial").read_bytes() == CONTENT[:400_000]
    assert download(remote, tmp_path).read_bytes() == CONTENT
    assert host.requests == [None, "bytes=400000-"]


def test_too_little_room_is_told_before_anything_is_fetched(
    host: "Host", remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10**9, 10**9, 600_000))
    (tmp_path / "data.tgz.partial").write_bytes(CONTENT[:50_000])
    with pytest.raises(UserError, match=r"need 1 MB more, but .* has 1 MB free"):
        download(remote, tmp_path)
    assert host.requests == []


def test_a_folder_that_cannot_be_made_is_told(host: "Host", remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"cannot write .*data\.tgz\.partial: Not a directory"):
        download(remote, tmp_path / "file" / "folder")
