"""The store: one pass, any order of names, a kill half-way, a full disk, and always the same pixels."""

import json
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from spice import arrays
from spice.data import Collection, ImageStore, Reason, ingest
from spice.data.decode import decode
from spice.data.pixels import COLOR
from spice.errors import NothingReadableError, UserError
from spice.randomness import generator

Photo = Callable[..., Image.Image]
Encode = Callable[..., bytes]
Scan = Callable[..., Collection]


@pytest.fixture
def files(photo: Photo, encode: Encode) -> list[bytes]:
    """Twelve different images in four formats, two of them gray."""
    kinds = ("JPEG", "PNG", "BMP", "WEBP")
    images = [photo(number, 30 + number, 40) for number in range(12)]
    images[3:5] = [image.convert("L") for image in images[3:5]]
    return [encode(image, kinds[number % 4]) for number, image in enumerate(images)]


@pytest.fixture
def folder(tmp_path: Path, files: list[bytes]) -> Path:
    root = tmp_path / "photos"
    for number, data in enumerate(files):
        path = root / f"class{number % 3}" / f"{number:02d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def everything(store: ImageStore) -> torch.Tensor:
    return store.take(range(len(store)))


def test_sharp_images_come_from_the_originals_as_long_as_they_are_there(folder: Path, tmp_path: Path) -> None:
    store = ingest(folder, size=24, folder=tmp_path / "store")
    (folder / store.collection.paths[1]).unlink()
    (folder / store.collection.paths[2]).write_bytes((folder / store.collection.paths[3]).read_bytes())
    sharp = store.sharp(np.arange(4), 30)
    assert np.array_equal(sharp[0], decode((folder / store.collection.paths[0]).read_bytes(), 30).pixels)
    assert [pixels.shape[1] for pixels in sharp] == [30, 24, 24, 30]
    assert np.array_equal(sharp[1], store.take([1])[0].numpy())
    assert [pixels.shape[1] for pixels in ingest(folder, size=40, folder=tmp_path / "s").sharp(np.arange(2), 50)] == [
        40,
        40,
    ]


def test_the_store_holds_what_decoding_gives(folder: Path, tmp_path: Path) -> None:
    store = ingest(folder, size=24, folder=tmp_path / "store")
    assert (len(store), store.size, store.channels) == (12, 24, 3)
    for position, path in enumerate(store.collection.paths):
        pixels = decode((folder / path).read_bytes(), 24).pixels
        taken = store.take([position])
        assert taken.dtype == torch.uint8
        assert taken.shape == (1, 3, 24, 24)
        assert np.array_equal(taken[0].numpy(), np.broadcast_to(pixels, (3, 24, 24)))


def test_any_positions_in_any_order_as_list_tensor_or_array(folder: Path, tmp_path: Path) -> None:
    store = ingest(folder, size=24, folder=tmp_path / "store")
    all_images = everything(store)
    wanted = [7, 0, 7, 11, 3]
    for positions in (wanted, torch.tensor(wanted), np.array(wanted)):
        assert torch.equal(store.take(positions), all_images[wanted])
    assert store.take([]).shape == (0, 3, 24, 24)
    for bad in ([12], [-1]):
        with pytest.raises(IndexError, match="12 images"):
            store.take(bad)


def test_names_and_folders_do_not_influence_the_result(folder: Path, tmp_path: Path, files: list[bytes]) -> None:
    """The label firewall: class folders against the same files flat, shuffled, under random names."""
    flat = tmp_path / "flat"
    flat.mkdir()
    shuffled = random.Random(0).sample(files, len(files))
    for data in shuffled:
        (flat / f"{random.Random(data).getrandbits(64):x}.jpg").write_bytes(data)
    in_classes = ingest(folder, size=24, folder=tmp_path / "a")
    in_disorder = ingest(flat, size=24, folder=tmp_path / "b", workers=3)
    assert torch.equal(everything(in_classes), everything(in_disorder))
    assert in_classes.collection.identity == in_disorder.collection.identity
    columns = ["hash", "width", "height", "gray", "copy_of"]
    assert in_classes.collection.table.select(columns).equals(in_disorder.collection.table.select(columns))


def test_exact_copies_are_kept_and_marked(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "class0" / "00", folder / "again")
    shutil.copy(folder / "class0" / "00", folder / "and again")
    collection = ingest(folder, size=24, folder=tmp_path / "store").collection
    assert len(collection) == 14
    first = collection.paths.index("again")  # by name, the first of the three
    copies = np.flatnonzero(collection.copy_of >= 0)
    assert collection.copy_of[copies].tolist() == [first, first]
    assert {collection.paths[copy] for copy in copies} == {"and again", "class0/00"}
    assert copies.tolist() == [first + 1, first + 2]


def test_a_gray_collection_has_one_channel(tmp_path: Path, photo: Photo) -> None:
    gray = [photo(number).convert("L").convert("RGB") for number in range(3)]
    assert ingest(gray, size=16, folder=tmp_path / "gray").channels == 1
    mixed = ingest([*gray, photo(9)], size=16, folder=tmp_path / "mixed")
    assert mixed.channels == 3
    taken = everything(mixed)
    is_gray = torch.from_numpy(mixed.collection.gray)
    assert torch.equal(taken[is_gray][:, 0], taken[is_gray][:, 2])
    assert is_gray.sum() == 3


def test_answers_can_be_given_in_the_users_order(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8)
    store = ingest(array, size=16, folder=tmp_path / "store")
    in_order = torch.empty_like(everything(store))
    in_order[torch.from_numpy(store.collection.numbers)] = everything(store)
    assert np.array_equal(in_order.numpy(), array.transpose(0, 3, 1, 2))


@pytest.mark.parametrize(("kind", "factor"), [(np.float32, 1 / 255), (np.float64, 1), (np.int64, 1), (np.uint16, 257)])
def test_arrays_of_other_types_give_the_same_pixels(kind: type, factor: float, tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 256, (9, 16, 16), dtype=np.uint8)
    array[0], array[1] = 0, 1  # alone, these could be taken for 0..1
    store = ingest((array.astype(np.float64) * factor).astype(kind), size=16, folder=tmp_path / "store")
    in_order = torch.empty_like(everything(store))
    in_order[torch.from_numpy(store.collection.numbers)] = everything(store)
    assert np.array_equal(in_order[:, 0].numpy(), array)


def test_a_finished_collection_is_read_back_without_its_source(folder: Path, tmp_path: Path) -> None:
    store = ingest(folder, size=24, folder=tmp_path / "store")
    before = everything(store)
    shutil.rmtree(folder)
    assert torch.equal(everything(store), before)
    assert Collection.load(tmp_path / "store").table.equals(store.collection.table)


class Reads:
    """Counts how many entries were read, through the progress that everyone sees."""

    def __init__(self) -> None:
        self.already: int | None = None
        self.total = 0

    def __call__(self, task: str, done: int, total: int, figures: object = None) -> None:
        self.already = done if self.already is None else self.already
        self.total = total


def test_a_second_run_reads_only_what_is_new_changed_or_mended(
    folder: Path, tmp_path: Path, photo: Photo, encode: Encode
) -> None:
    (folder / "broken").write_bytes(b"\xff\xd8\xff")
    ingest(folder, size=24, folder=tmp_path / "store")
    (folder / "new").write_bytes(encode(photo(50)))
    (folder / "class0" / "00").write_bytes(encode(photo(51)))
    (folder / "class1" / "01").unlink()
    reads = Reads()
    store = ingest(folder, size=24, folder=tmp_path / "store", progress=reads)
    assert (reads.already, reads.total) == (10, 13)  # left: the new, the changed and the broken one
    assert torch.equal(everything(store), everything(ingest(folder, size=24, folder=tmp_path / "fresh")))
    assert "class1/01" not in store.collection.paths


def test_an_array_that_changed_is_read_again(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 256, (6, 16, 16), dtype=np.uint8)
    ingest(array, size=16, folder=tmp_path / "store")
    array[2] = 255 - array[2]
    store = ingest(array, size=16, folder=tmp_path / "store")
    assert torch.equal(everything(store), everything(ingest(array, size=16, folder=tmp_path / "fresh")))


def test_another_working_size_starts_over(folder: Path, tmp_path: Path) -> None:
    ingest(folder, size=24, folder=tmp_path / "store")
    store = ingest(folder, size=16, folder=tmp_path / "store")
    assert torch.equal(everything(store), everything(ingest(folder, size=16, folder=tmp_path / "fresh")))


@pytest.mark.parametrize("limit", [0, 5 * 3 * 24 * 24])
def test_beyond_its_limit_the_store_streams_the_same_pixels(limit: int, folder: Path, tmp_path: Path) -> None:
    whole = ingest(folder, size=24, folder=tmp_path / "whole")
    store = ingest(folder, size=24, folder=tmp_path / "store", limit_bytes=limit)
    assert sum((tmp_path / "store" / name).stat().st_size for name in ("gray.u8", "color.u8")) <= limit
    assert (store.collection.rows < 0).any()
    for _ in range(2):  # the second time from memory
        assert torch.equal(everything(store), everything(whole))
    (folder / "z run").mkdir()
    (folder / "z run" / "page.png").write_bytes((folder / "class0" / "00").read_bytes())
    again = ingest(folder, size=24, folder=tmp_path / "store", limit_bytes=limit, leave_out=[folder / "z run"])
    assert torch.equal(everything(again), everything(whole))
    shutil.rmtree(folder / "z run")
    roomier = ingest(folder, size=24, folder=tmp_path / "store")
    assert (roomier.collection.rows >= 0).all()
    assert torch.equal(everything(roomier), everything(whole))
    used = sum((tmp_path / "store" / name).stat().st_size for name in ("gray.u8", "color.u8"))
    assert (ingest(folder, size=24, folder=tmp_path / "store", limit_bytes=used).collection.rows >= 0).all()


def test_streamed_images_can_be_taken_by_many_threads(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spice.data.store._CACHE_BYTES", 3 * 3 * 24 * 24)  # of three images: they soon make way
    whole = everything(ingest(folder, size=24, folder=tmp_path / "whole"))
    store = ingest(folder, size=24, folder=tmp_path / "store", limit_bytes=0)
    with ThreadPoolExecutor(8) as pool:
        drawn = [torch.randint(len(store), (4,), generator=generator(number, "test")) for number in range(200)]
        for positions, taken in zip(drawn, pool.map(store.take, drawn), strict=True):
            assert torch.equal(taken, whole[positions])


@pytest.mark.parametrize("limit", [0, 10**9])
def test_a_problem_that_was_mended_elsewhere_is_looked_at_again(limit: int, folder: Path, tmp_path: Path) -> None:
    before = ingest(folder, size=24, folder=tmp_path / "store", limit_bytes=limit, max_pixels=35 * 40)
    assert {problem.reason for problem in before.collection.problems} == {Reason.TOO_LARGE}
    after = ingest(folder, size=24, folder=tmp_path / "store", limit_bytes=limit)
    assert (len(before), len(after)) == (6, 12)


def test_a_streamed_image_that_is_gone_or_changed_is_named(
    folder: Path, tmp_path: Path, photo: Photo, encode: Encode
) -> None:
    store = ingest(folder, size=24, folder=tmp_path / "store", limit_bytes=0)
    paths = store.collection.paths
    (folder / paths[4]).unlink()
    (folder / paths[5]).write_bytes(encode(photo(70)))
    with pytest.raises(UserError, match=f"{paths[4]} can no longer be read"):
        store.take([3, 4])
    with pytest.raises(UserError, match=f"{paths[5]} has changed"):
        store.take([5])
    assert store.take([3]).shape == (1, 3, 24, 24)


def test_two_runs_into_one_store_wait_for_each_other(folder: Path, tmp_path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hold(task: str, done: int, total: int, figures: object = None) -> None:
        inside.set()
        assert go_on.wait(60)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ingest, folder, size=24, folder=tmp_path / "store", progress=hold)
        assert inside.wait(60)
        reads = Reads()
        second = pool.submit(ingest, folder, size=24, folder=tmp_path / "store", progress=reads)
        with pytest.raises(TimeoutError):
            second.result(timeout=1)
        go_on.set()
        assert torch.equal(everything(first.result(60)), everything(second.result(60)))
    assert reads.already == 12  # the second found all done


def test_a_compressed_archive_that_cannot_be_streamed_is_refused(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "photos.tar.gz", "w:gz") as archive:
        archive.add(folder, "photos")
    with pytest.raises(UserError, match="unpack it, or allow a larger store"):
        ingest(tmp_path / "photos.tar.gz", size=24, folder=tmp_path / "store", limit_bytes=1000)
    assert len(ingest(tmp_path / "photos.tar.gz", size=24, folder=tmp_path / "store")) == 12


def test_the_stores_own_folder_among_the_images_is_left_out(folder: Path, photo: Photo) -> None:
    run = folder / "run"
    (run / "figures").mkdir(parents=True)
    photo(0).save(run / "figures" / "curve.png")
    for _ in range(2):
        store = ingest(folder, size=24, folder=run / "store", leave_out=[run])
        assert len(store) == 12
        assert not store.collection.problems


def test_with_no_image_left_the_problems_are_still_written(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").touch()
    with pytest.raises(NothingReadableError):
        ingest(tmp_path / "photos", size=24, folder=tmp_path / "store")
    assert (tmp_path / "store" / "problems.csv").read_text() == "path,reason,detail\na.jpg,empty,\n"


def test_one_image_is_a_collection(folder: Path, tmp_path: Path) -> None:
    store = ingest(folder / "class0" / "00", size=24, folder=tmp_path / "store")
    assert store.take([0]).shape == (1, 3, 24, 24)


def test_a_folder_that_is_a_file_is_refused_in_words(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    with pytest.raises(UserError, match="cannot be written"):
        ingest(folder, size=24, folder=tmp_path / "store")


def many_images(path: Path, count: int = 2000) -> None:
    """An array file of different images: quick to make, slow enough to be killed in."""
    np.save(path, np.random.default_rng(0).integers(0, 256, (count, 64, 64, 3), dtype=np.uint8))


KILLED = """
import sys, time
from pathlib import Path
from spice.data import ingest
sys.modules["spice.data.writer"]._SECONDS_BETWEEN_PARTS = 0.05
ingest(sys.argv[1], size=64, folder=Path(sys.argv[2]), workers=1, progress=lambda *_: time.sleep(0.01))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is of POSIX systems")
def test_a_run_killed_half_way_goes_on_where_it_was(tmp_path: Path) -> None:
    source, store = tmp_path / "images.npy", tmp_path / "store"
    many_images(source)
    running = subprocess.Popen([sys.executable, "-c", KILLED, str(source), str(store)])
    deadline = time.monotonic() + 60
    while len(list(store.glob("journal/*.parquet"))) < 3 and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    assert not (store / "images.parquet").exists()
    with (store / "color.u8").open("ab") as file:
        file.write(b"half an image")  # as a kill in the middle of a write leaves it
    reads = Reads()
    resumed = ingest(source, size=64, folder=store, progress=reads)
    assert reads.already is not None
    assert 0 < reads.already < 2000
    fresh = ingest(source, size=64, folder=tmp_path / "fresh")
    assert torch.equal(everything(resumed), everything(fresh))


def test_pixels_lost_under_the_journal_are_read_again(folder: Path, tmp_path: Path) -> None:
    before = everything(ingest(folder, size=24, folder=tmp_path / "store"))
    (tmp_path / "store" / "color.u8").unlink()
    assert torch.equal(everything(ingest(folder, size=24, folder=tmp_path / "store")), before)
    (tmp_path / "store" / "store.json").write_text("{ half a f")
    assert torch.equal(everything(ingest(folder, size=24, folder=tmp_path / "store")), before)


FULL = """
import resource, signal, sys
from pathlib import Path
from spice.data import ingest
from spice.errors import UserError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
try:
    ingest(sys.argv[1], size=64, folder=Path(sys.argv[2]))
except UserError as error:
    print(error)
    sys.exit(7)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
def test_a_full_disk_is_reported_and_the_run_can_continue(tmp_path: Path) -> None:
    source, store = tmp_path / "images.npy", tmp_path / "store"
    many_images(source, 400)
    ended = subprocess.run(
        [sys.executable, "-c", FULL, str(source), str(store)], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 7, ended.stderr
    assert f"the store in {store} cannot be written" in ended.stdout
    again = ingest(source, size=64, folder=store)
    assert torch.equal(everything(again), everything(ingest(source, size=64, folder=tmp_path / "fresh")))


def test_a_folder_with_every_kind_of_problem(
    folder: Path, tmp_path: Path, photo: Photo, encode: Encode, scan: Scan
) -> None:
    large = encode(photo(60, 200, 200))
    (folder / "cut.jpg").write_bytes(large[: len(large) // 2])
    (folder / "empty.png").touch()
    (folder / "notes.txt").write_text("a note")
    (folder / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64) + b"IEND\xaeB`\x82")
    (folder / "huge.png").write_bytes(encode(photo(61, 300, 300), "PNG"))
    (folder / "gone.jpg").symlink_to("nowhere")
    (folder / "ring.jpg").symlink_to("ring.jpg")
    (folder / "ring").symlink_to(folder)
    store = ingest(folder, size=24, folder=tmp_path / "store", max_pixels=250 * 250)
    assert len(store) == 12
    assert {problem.path: problem.reason for problem in Collection.load(tmp_path / "store").problems} == {
        "cut.jpg": Reason.TRUNCATED,
        "empty.png": Reason.EMPTY,
        "notes.txt": Reason.NOT_AN_IMAGE,
        "torn.png": Reason.UNREADABLE,
        "huge.png": Reason.TOO_LARGE,
        "gone.jpg": Reason.BROKEN_LINK,
        "ring.jpg": Reason.LOOP_OF_LINKS,
        "ring": Reason.LOOP_OF_LINKS,
    }
    assert scan(folder, max_pixels=250 * 250).problems == store.collection.problems


def test_no_handle_stays_open(folder: Path, tmp_path: Path) -> None:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc")
    ingest(folder, size=24, folder=tmp_path / "warm")
    before = len(list(Path("/proc/self/fd").iterdir()))
    stores = [ingest(folder, size=24, folder=tmp_path / str(number)) for number in range(5)]
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2 * len(stores)  # two memory maps each at most
    assert json.loads((tmp_path / "0" / "store.json").read_text())["size"] == 24


@pytest.mark.skipif(not arrays.CAN_JOIN, reason="nothing is cut on this system")
def test_a_store_in_pieces_holds_the_same_pixels_and_continues_where_it_was(
    folder: Path, tmp_path: Path, photo: Photo, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = everything(ingest(folder, size=40, folder=tmp_path / "whole"))
    monkeypatch.setattr(arrays, "PIECE_BYTES", 64 << 10)
    store = ingest(folder, size=40, folder=tmp_path / "store")  # 4,800 bytes of color: no whole number in a piece
    assert everything(store).equal(expected)
    for number in range(40):
        photo(100 + number).save(folder / f"more {number}.png")
    arrays.piece(tmp_path / "store" / COLOR, 1).write_bytes(b"what a killed run wrote beyond its journal")
    grown = ingest(folder, size=40, folder=tmp_path / "store")
    pieces = [tmp_path / "store" / COLOR, *arrays.further_pieces(tmp_path / "store" / COLOR)]
    assert [path.stat().st_size for path in pieces[:-1]] == [64 << 10] * (len(pieces) - 1)
    assert len(pieces) > 2
    assert everything(ingest(folder, size=40, folder=tmp_path / "anew")).equal(everything(grown))
    pieces[1].unlink()
    assert everything(ingest(folder, size=40, folder=tmp_path / "store")).equal(everything(grown))
