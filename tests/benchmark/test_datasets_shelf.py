"""Data sets on their shelf: from the web or a file to images that learn and labels that wait, and nothing unsafe."""

import gzip
import hashlib
import io
import os
import struct
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from filelock import FileLock
from numpy.typing import NDArray

from spice.benchmark.datasets import CATALOG, Card, Counts, Dataset, Part, Remote, default_root, located
from spice.benchmark.datasets.download import is_archive, unpack
from spice.benchmark.datasets.readers import READERS
from spice.benchmark.datasets.shelf import get, load, read
from spice.data import ingest
from spice.errors import UserError

if TYPE_CHECKING:
    from tests.benchmark.conftest import Host

STL10 = CATALOG["stl10"]
FASHION = CATALOG["fashion-mnist"]


def stl10_files(*, train: int = 4, test: int = 3, unlabeled: int = 5) -> dict[str, bytes]:
    """The smallest STL-10: every image of one value, its own."""
    counts = {"train": train, "test": test, "unlabeled": unlabeled}
    values = np.split(np.arange(sum(counts.values()), dtype=np.uint8), np.cumsum(list(counts.values()))[:-1])
    images = {f"{name}_X.bin": np.repeat(part, 27648).tobytes() for name, part in zip(counts, values, strict=True)}
    return images | {"train_y.bin": bytes(range(1, train + 1)), "test_y.bin": bytes(range(4, test + 4))}


def tar(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def fashion_files(labels: tuple[int, ...] = FASHION.first_labels) -> dict[str, bytes]:
    images = np.arange(len(labels) * 784, dtype=np.uint32).astype(np.uint8).reshape(-1, 28, 28)
    files = {}
    for part in ("train", "t10k"):
        for kind, values in (("images-idx3", images), ("labels-idx1", np.array(labels, dtype=np.uint8))):
            head = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
            files[f"{part}-{kind}-ubyte.gz"] = gzip.compress(head + values.tobytes())
    return files


def served(card: Card, files: dict[str, bytes], host: "Host") -> Card:
    """The card with its files on this machine's server."""
    host.files |= files
    remotes = [
        Remote(f"{host.address}/{name}", len(content), hashlib.sha256(content).hexdigest())
        for name, content in files.items()
    ]
    return replace(card, files=tuple(remotes), places=())


def first_pixels(images: NDArray[np.uint8] | list[Path] | None) -> list[int]:
    assert isinstance(images, np.ndarray)
    return [int(value) for value in images[:, 0, 0, 0]]


def test_a_downloaded_archive_becomes_a_data_set(host: "Host", tmp_path: Path) -> None:
    wrapped = {f"stl10_binary/{name}": content for name, content in stl10_files().items()}
    card = served(STL10, {"stl10_binary.tar.gz": tar(wrapped)}, host)
    found = get(card, root=tmp_path)
    assert found.counts == Counts(4, 3, 5)
    assert located(card, tmp_path) == tmp_path / "stl10"
    assert not (tmp_path / "downloads" / "stl10").exists()  # the archive would only take room
    get(card, root=tmp_path)
    assert len(host.requests) == 1


def test_four_downloaded_files_become_a_data_set(host: "Host", tmp_path: Path) -> None:
    card = served(FASHION, fashion_files(), host)
    host.cuts = [50]  # the first is cut once
    found = get(card, root=tmp_path, waits=(0.0,))
    assert found.counts == Counts(10, 10)
    assert len(host.requests) == 5


def test_a_zip_becomes_a_data_set(host: "Host", tmp_path: Path) -> None:
    card = served(STL10, {"any.zip": zipped(stl10_files())}, host)
    assert get(card, root=tmp_path).counts == Counts(4, 3, 5)


@pytest.mark.parametrize("suffix", [".tgz", ".tar", ".zip", ".dat"])
def test_a_local_archive_is_known_by_its_content(suffix: str, tmp_path: Path) -> None:
    source = tmp_path / f"given{suffix}"
    content = {".tgz": tar(stl10_files()), ".tar": tar(stl10_files(), "w"), ".dat": tar(stl10_files(), "w:xz")}
    source.write_bytes(content.get(suffix) or zipped(stl10_files()))
    assert get(STL10, source=source, root=tmp_path / "root").counts == Counts(4, 3, 5)
    assert source.exists()


def test_a_local_folder_is_used_where_it_lies(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, content in stl10_files(unlabeled=0).items():
        if content:
            (folder / name).write_bytes(content)
    root = tmp_path / "root"
    assert get(STL10, source=folder, root=root).counts == Counts(4, 3, 0)
    assert located(STL10, root) == folder
    assert load(STL10, root).unlabeled is None
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"STL-10 is not in .*; get it with: spice datasets get stl10"):
        load(STL10, root)


def test_the_last_source_given_is_the_one_used(tmp_path: Path) -> None:
    archive, folder, root = tmp_path / "stl10.tgz", tmp_path / "mine", tmp_path / "root"
    archive.write_bytes(tar(stl10_files()))
    unpack(archive, folder)
    places = []
    for source in (archive, folder, archive):
        get(STL10, source=source, root=root)
        places.append(located(STL10, root))
    assert places == [root / "stl10", folder, root / "stl10"]


def test_debians_package_is_found_without_being_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "usr" / "share" / "datasets" / "fashion-mnist"
    place.mkdir(parents=True)
    for name, content in fashion_files().items():
        (place / name).write_bytes(content)
    card = replace(FASHION, places=(place,))
    assert get(card, root=tmp_path / "root").counts == Counts(10, 10)
    assert FASHION.places == (Path("/usr/share/datasets/fashion-mnist"),)


def test_another_data_set_of_the_same_layout_is_refused(tmp_path: Path) -> None:
    for name, content in fashion_files().items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match="has the layout of MNIST, but contains other images"):
        get(CATALOG["mnist"], source=tmp_path, root=tmp_path / "root")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (tar({"notes.txt": b"nothing"}), "given cannot be used: it does not contain STL-10 in a known layout"),
        (tar(stl10_files())[:-300], r"given cannot be unpacked \(.*\): is it complete\?"),
        (zipped(stl10_files()).replace(b"\1\1\1\1", b"\1\1\1\2", 1), r"cannot be unpacked \(Bad CRC-32"),
        (tar(stl10_files(), "w")[:100_000], r"given cannot be unpacked \(unexpected end of data\)"),
        (zipped(stl10_files()).replace(b"PK\1\2", b"PK\1\3"), "given cannot be used: it does not contain STL-10"),
        (b"no archive at all", "given cannot be used: it does not contain STL-10"),
        (tar({"a": b"", "a/b": b""}), "STL-10 cannot be installed in .*a"),
        (tar(stl10_files(train=0)), "train_X.bin has 0 bytes"),
    ],
    ids=["other files", "cut gzip", "bad checksum", "cut tar", "no directory", "text", "file as folder", "empty file"],
)
def test_what_cannot_be_used_is_told_and_leaves_nothing(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(content)
    root = tmp_path / "root"
    with pytest.raises(UserError, match=words):
        get(STL10, source=tmp_path / "given", root=root)
    assert [path.name for path in root.iterdir()] == [".stl10.lock"]


def test_a_failed_replacement_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(tar(stl10_files()))
    (tmp_path / "bad").write_bytes(tar({"notes.txt": b""}))
    get(STL10, source=tmp_path / "good", root=tmp_path)
    with pytest.raises(UserError, match="does not contain STL-10"):
        get(STL10, source=tmp_path / "bad", root=tmp_path)
    assert load(STL10, tmp_path).counts == Counts(4, 3, 5)
    (tmp_path / ".stl10.partial").mkdir()  # left by a kill
    (tmp_path / "good").write_bytes(tar(stl10_files(train=6)))
    assert get(STL10, source=tmp_path / "good", root=tmp_path).counts == Counts(6, 3, 5)


def test_what_cannot_be_downloaded_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ImageNet-10 cannot be downloaded: ask for ImageNet .* with --from"):
        get(CATALOG["imagenet-10"], root=tmp_path)
    with pytest.raises(UserError, match=r"there is no file or folder .*nowhere"):
        get(CATALOG["imagenet-10"], source=tmp_path / "nowhere", root=tmp_path)


def test_two_processes_do_not_get_one_data_set_at_once(tmp_path: Path) -> None:
    busy = pytest.raises(UserError, match="another process is downloading STL-10")
    with FileLock(tmp_path / ".stl10.lock"), busy:
        get(STL10, source=tmp_path, root=tmp_path)


@pytest.mark.parametrize("pack", [tar, zipped])
@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/tmp/spice-evil", "a\\..\\evil", "C:evil"])
def test_no_archive_writes_outside_of_its_folder(name: str, pack: type, tmp_path: Path) -> None:
    archive, folder = tmp_path / "archive", tmp_path / "inside" / "folder"
    archive.write_bytes(pack({name: b"evil"}))
    with pytest.raises(UserError, match=r"archive was refused: it contains '.*evil', which could be written outside"):
        unpack(archive, folder)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path != archive]


def test_links_in_an_archive_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    with tarfile.open(tmp_path / "links.tar", "w") as archive:
        for kind, name in ((tarfile.SYMTYPE, "link"), (tarfile.LNKTYPE, "hard"), (tarfile.FIFOTYPE, "pipe")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, str(tmp_path / "outside")
            archive.addfile(member)
        archive.addfile(tarfile.TarInfo("link/evil"))
    unpack(tmp_path / "links.tar", tmp_path / "folder")
    assert [path.name for path in (tmp_path / "folder").rglob("*")] == ["link", "evil"]
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_tar_that_ends_with_a_zip_is_a_tar(tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(tar(stl10_files() | {"more.zip": zipped({"notes.txt": b""})}, "w"))
    assert get(STL10, source=tmp_path / "given", root=tmp_path).counts == Counts(4, 3, 5)


def test_a_folder_of_any_name_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9 \xff")
    (tmp_path / "stl10.tgz").write_bytes(tar(stl10_files()))
    unpack(tmp_path / "stl10.tgz", folder)
    get(STL10, source=folder, root=tmp_path)
    assert located(STL10, tmp_path) == folder


def test_labels_that_have_gone_are_told(tmp_path: Path) -> None:
    (tmp_path / "stl10.tgz").write_bytes(tar(stl10_files()))
    found = get(STL10, source=tmp_path / "stl10.tgz", root=tmp_path)
    (tmp_path / "stl10" / "test_y.bin").unlink()  # lazily read: nothing else needs the file
    assert found.test is not None
    assert len(found.test) == 3
    with pytest.raises(UserError, match=r"cannot read the true labels: .*test_y\.bin"):
        found.test.truth()


def test_arrays_in_a_file_are_no_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", x_train=np.zeros(3))
    assert not is_archive(tmp_path / "arrays.npz")


def test_parts_keep_apart_until_they_are_merged(tmp_path: Path) -> None:
    (tmp_path / "stl10.tgz").write_bytes(tar(stl10_files()))
    found = get(STL10, source=tmp_path / "stl10.tgz", root=tmp_path)
    assert found.test is not None
    assert first_pixels(found.train.images) == [0, 1, 2, 3]
    assert first_pixels(found.test.images) == [4, 5, 6]
    assert first_pixels(found.unlabeled) == [7, 8, 9, 10, 11]
    assert found.test.truth().labels.tolist() == [3, 4, 5]
    whole = found.train.merged(found.test)
    assert first_pixels(whole.images) == [0, 1, 2, 3, 4, 5, 6]
    assert whole.truth().labels.tolist() == [0, 1, 2, 3, 3, 4, 5]


def test_parts_of_files_are_merged_in_order() -> None:
    first = Part([Path("x")], ("a", "b"), lambda: np.array([1]))
    both = first.merged(Part([Path("y")], ("a", "b"), lambda: np.array([0])))
    assert both.images == [Path("x"), Path("y")]
    assert both.truth().labels.tolist() == [1, 0]


def test_labels_are_not_read_before_they_are_asked_for(tmp_path: Path) -> None:
    def never() -> NDArray[np.int64]:
        raise AssertionError("a label was read")

    part = Part(np.zeros((3, 8, 8), dtype=np.uint8), ("a", "b"), never)
    found = Dataset("none", train=part, test=part)
    assert found.counts == (3, 3, 0)
    for each in (part, part.merged(part)):
        assert len(each.images) > 0
        assert not hasattr(each.images, "truth")
        with pytest.raises(AssertionError, match="a label was read"):
            each.truth()


def test_labels_meet_their_images_again_in_a_store(tmp_path: Path) -> None:
    (tmp_path / "stl10.tgz").write_bytes(tar(stl10_files()))
    found = get(STL10, source=tmp_path / "stl10.tgz", root=tmp_path)
    assert found.test is not None
    scored = found.train.merged(found.test)
    store = ingest(scored.images, size=8, folder=tmp_path / "store")
    labels = scored.truth().labels[store.collection.numbers]
    of_value = {0: 0, 1: 1, 2: 2, 3: 3, 4: 3, 5: 4, 6: 5}
    values = store.take(np.arange(7))[:, 0, 0, 0].tolist()
    assert values != sorted(values)  # the store has an order of its own
    assert labels.tolist() == [of_value[value] for value in values]


@pytest.mark.slow
def test_the_real_fruits_are_recognized_in_their_archive(shared_data: Path, tmp_path: Path) -> None:
    card = CATALOG["fruits-15"]
    found = get(card, source=shared_data / "fruits.tar", root=tmp_path)
    assert found.counts == card.counts
    assert np.bincount(found.train.truth().labels).tolist()[:3] == [179, 194, 171]
    with pytest.raises(UserError, match="does not contain Imagenette"):
        read(CATALOG["imagenette"], tmp_path / "fruits-15")


def test_the_shelf_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPICE_DATA", str(tmp_path))
    assert default_root() == tmp_path
    monkeypatch.delenv("SPICE_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_root().is_relative_to(tmp_path)


@pytest.mark.parametrize("card", CATALOG.values(), ids=lambda card: card.name)
def test_every_card_is_whole(card: Card) -> None:
    assert len(card.classes) in (card.clusters, 0)
    assert len(set(card.classes)) == len(card.classes)
    assert card.files or card.advice or card.places
    assert set(card.layouts) <= set(READERS)
    for remote in card.files:
        assert len(bytes.fromhex(remote.sha256)) == 32
        assert remote.url.startswith(("https://", "http://"))
