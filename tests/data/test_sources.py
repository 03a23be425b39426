"""Whatever a user hands over is read, and what cannot be is named."""

import csv
import gzip
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

from spice.data import Collection, Reason, ingest
from spice.data.decode import decode
from spice.data.originals import originals
from spice.data.problems import Problem, read_problems, write_problems
from spice.data.sources import read_file, read_if_image
from spice.errors import NothingReadableError, NoticeWarning, UserError

Photo = Callable[..., Image.Image]
Encode = Callable[..., bytes]
Scan = Callable[..., Collection]


@pytest.fixture
def folder(tmp_path: Path, photo: Photo, encode: Encode) -> Path:
    """Five images in two folders."""
    root = tmp_path / "photos"
    for number in range(5):
        path = root / ("cats" if number % 2 else "dogs") / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(photo(number)))
    return root


def names(collection: Collection) -> set[str]:
    return set(collection.paths)


def problems(collection: Collection) -> dict[str, Reason]:
    return {problem.path: problem.reason for problem in collection.problems}


def test_a_folder_is_read_through_all_its_folders(folder: Path, scan: Scan) -> None:
    assert names(scan(folder)) == {"dogs/0.jpg", "cats/1.jpg", "dogs/2.jpg", "cats/3.jpg", "dogs/4.jpg"}
    assert names(scan(str(folder))) == names(scan(folder))


def test_a_glob_takes_what_matches(folder: Path, scan: Scan) -> None:
    assert names(scan(f"{folder}/*/[01].jpg")) == {f"{folder}/dogs/0.jpg", f"{folder}/cats/1.jpg"}
    assert len(scan(f"{folder}/**/*")) == 5
    with pytest.raises(UserError, match="no files match"):
        scan(f"{folder}/*.bmp")


def test_a_folder_named_like_a_glob_is_a_folder(folder: Path, scan: Scan) -> None:
    odd = folder.rename(folder.with_name("photos [2020] *"))
    assert len(scan(odd)) == 5


def test_hidden_and_system_folders_and_earlier_runs_are_skipped(
    folder: Path, photo: Photo, scan: Scan, caplog: pytest.LogCaptureFixture
) -> None:
    hidden = [".git", "cats/.thumbnails", "cats/@eaDir", "__MACOSX", "Photos Previews.lrdata", "$RECYCLE.BIN"]
    runs = {"first.spice": None, "second": {"format": 2, "results": {}}, "cats/third": {"format": 1, "steps": {}}}
    expected = names(scan(folder))
    for number, name in enumerate([*hidden, *runs]):
        (folder / name / "deep").mkdir(parents=True)
        photo(50 + number).save(folder / name / "deep" / "page.png")
        if runs.get(name):
            (folder / name / "manifest.json").write_text(json.dumps(runs[name]))
    with caplog.at_level("INFO", logger="spice"):
        collection = scan(folder)
    assert names(collection) == expected
    assert not collection.problems
    (line,) = (message for message in caplog.messages if "skipped" in message)
    assert line.startswith("skipped folders: ")
    assert "6 hidden or of the system (such as " in line
    assert "3 made by spice (such as " in line


def test_a_folder_of_images_with_a_manifest_of_another_program_is_read(folder: Path, scan: Scan) -> None:
    for number, text in enumerate(['{"format": 2}', '["results", "format"]', "{ half", "[" * 100_000]):
        (folder / "cats" / "manifest.json").write_text(text)
        assert len(scan(folder)) == 5, number
    (folder / "cats" / "manifest.json").unlink()
    (folder / "cats" / "manifest.json").symlink_to("manifest.json")
    assert len(scan(folder)) == 5


def test_a_folder_that_the_user_names_is_read_whatever_its_name(folder: Path, scan: Scan) -> None:
    for name in (".hidden", "@eaDir", "photos.spice"):
        folder = folder.rename(folder.with_name(name))
        assert len(scan(folder)) == 5
    (folder / "manifest.json").write_text('{"format": 2, "results": {}}')
    assert len(scan(folder)) == 5


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".tsv", ".parquet"])
def test_a_list_of_paths_starts_at_its_own_folder(suffix: str, folder: Path, scan: Scan) -> None:
    listed = ["dogs/0.jpg", "cats/1.jpg", str(folder / "dogs/2.jpg"), "cats/gone.jpg"]
    path = folder / f"list{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.table({"label": [0, 1, 0, 1], "File": listed}), path)
    elif suffix == ".txt":
        path.write_text("\r\n".join(listed) + "\n\n")
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="," if suffix == ".csv" else "\t")
            writer.writerows([("label", "image"), *((0, name) for name in listed)])
    collection = scan(path)
    assert names(collection) == set(listed[:3])
    assert problems(collection) == {"cats/gone.jpg": Reason.UNREADABLE}


def test_a_csv_without_a_header_lists_images_from_its_first_line(folder: Path, scan: Scan) -> None:
    (folder / "list.csv").write_text("dogs/0.jpg,dog\ncats/1.jpg,cat\n")
    assert names(scan(folder / "list.csv")) == {"dogs/0.jpg", "cats/1.jpg"}


def test_a_csv_without_a_column_of_paths_says_what_it_found(folder: Path, scan: Scan) -> None:
    (folder / "list.csv").write_text("name,label\nx,1\n")
    with pytest.raises(UserError, match=r"no path column.*name, label"):
        scan(folder / "list.csv")


def test_a_list_that_cannot_be_read_says_so(tmp_path: Path, scan: Scan) -> None:
    (tmp_path / "bytes.parquet").write_bytes(b"PAR1 nothing PAR1")
    pq.write_table(pa.table({"path": [[1], [2]]}), tmp_path / "nested.parquet")
    (tmp_path / "endless.csv").write_text("path\n" + "x" * 200_000)
    (tmp_path / "blank.txt").write_text("\n\n")
    for name in ("bytes.parquet", "nested.parquet", "endless.csv"):
        with pytest.raises(UserError, match=f"{name} cannot be read"):
            scan(tmp_path / name)
    with pytest.raises(UserError, match=r"blank\.txt lists no image"):
        scan(tmp_path / "blank.txt")


def test_names_no_file_can_have_are_problems(folder: Path, scan: Scan) -> None:
    impossible = ["zero\0byte.jpg", "half\ud83d.jpg", "x" * 5000]
    collection = scan([str(folder / "dogs" / "0.jpg"), *impossible])
    assert len(collection) == 1
    assert len(collection.problems) == 3
    collection.save(folder)
    assert {problem.path for problem in Collection.load(folder).problems} >= {"half\\ud83d.jpg"}


def test_lists_in_python_hold_paths_or_pictures(folder: Path, photo: Photo, scan: Scan) -> None:
    paths = sorted(folder.rglob("*.jpg"))
    assert len(scan(paths)) == 5
    collection = scan([photo(1), photo(2), photo(1)])
    assert sorted(collection.numbers.tolist()) == [0, 1, 2]
    assert (collection.copy_of >= 0).sum() == 1
    assert len(scan([paths[0], photo(1)])) == 2
    with pytest.raises(UserError, match="empty"):
        scan([])


def test_files_listed_many_times_are_decoded_once(folder: Path, tmp_path: Path) -> None:
    (folder / "list.txt").write_text("dogs/0.jpg\ncats/1.jpg\n" * 1000)
    store = ingest(folder / "list.txt", size=24, folder=tmp_path / "store")
    assert len(store) == 2000
    assert len(set(store.collection.rows.tolist())) == 2
    assert (tmp_path / "store" / "color.u8").stat().st_size == 2 * 3 * 24 * 24


def test_a_path_listed_twice_gets_two_answers(folder: Path, scan: Scan) -> None:
    path = folder / "dogs" / "0.jpg"
    collection = scan([path, folder / "cats" / "1.jpg", path])
    assert sorted(collection.numbers.tolist()) == [0, 1, 2]
    assert (collection.copy_of >= 0).sum() == 1


@pytest.mark.parametrize("shape", [(6, 20, 16), (6, 20, 16, 1), (6, 20, 16, 3), (6, 20, 16, 4)])
def test_arrays_and_their_files_are_read(shape: tuple[int, ...], tmp_path: Path, scan: Scan) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    collection = scan(array)
    assert sorted(collection.numbers.tolist()) == list(range(6))
    np.save(tmp_path / "images.npy", array)
    np.savez(tmp_path / "images.npz", train=array[:4], labels=np.arange(4), test=array[4:])
    for name in ("images.npy", "images.npz"):
        assert scan(tmp_path / name).identity == collection.identity
    assert "train/3" in names(scan(tmp_path / "images.npz"))


def test_float_arrays_share_one_range(scan: Scan) -> None:
    array = np.zeros((2, 8, 8), dtype=np.float32)
    array[1] = 200
    array[0, 0, 0] = 1  # a dark image: alone, its values could pass for 0..1
    assert len(scan(array)) == 2
    for bad in (array - 1, array * 2, array * np.nan):
        with pytest.raises(UserError, match=r"0\.\.1, 0\.\.255"):
            scan(bad)


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_an_array_that_would_be_nearly_black_is_pointed_out(scan: Scan, kind: type) -> None:
    array = np.arange(2 * 8 * 8).reshape(2, 8, 8) % 17
    with pytest.warns(NoticeWarning, match=r"values from 0 to 16, read as 0\.\.255.*if 16 means white, divide by it"):
        scan(array.astype(kind))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fine in (array / 16, array * 15.0, array.astype(np.uint8)):
            scan(fine)


@pytest.mark.parametrize(
    ("shape", "words"), [((4, 3, 8, 8), r"transpose\(0, 2, 3, 1\)"), ((4, 8), "shape"), ((4, 8, 8, 5), "shape")]
)
def test_an_array_of_another_shape_is_refused_in_words(shape: tuple[int, ...], words: str, scan: Scan) -> None:
    with pytest.raises(UserError, match=words):
        scan(np.zeros(shape, dtype=np.uint8))


def packed(folder: Path, kind: str) -> Path:
    target = folder.with_name(f"photos{kind}")
    if kind == ".zip":
        with zipfile.ZipFile(target, "w") as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder))
        return target
    with tarfile.open(target, "w:gz" if kind.endswith("gz") else "w") as archive:
        archive.add(folder, ".", filter=lambda member: member)
    return target


@pytest.mark.parametrize("kind", [".tar", ".tar.gz", ".tgz", ".zip"])
def test_archives_are_read_in_place(kind: str, folder: Path, scan: Scan) -> None:
    (folder / "readme.txt").write_text("not an image")
    (folder / "empty.png").touch()
    collection = scan(packed(folder, kind))
    assert collection.identity == scan(folder).identity
    found = {path.removeprefix("./"): reason for path, reason in problems(collection).items()}
    assert found == {"readme.txt": Reason.NOT_AN_IMAGE, "empty.png": Reason.EMPTY}


def test_links_inside_a_tar_are_followed(folder: Path, scan: Scan) -> None:
    os.link(folder / "dogs/0.jpg", folder / "dogs/0-again.jpg")
    (folder / "cats/also.jpg").symlink_to("../dogs/2.jpg")
    (folder / "cats/gone.jpg").symlink_to("nowhere.jpg")
    (folder / "cats/self.jpg").symlink_to("self.jpg")
    collection = scan(packed(folder, ".tar"))
    assert len(collection) == 7
    assert (collection.copy_of >= 0).sum() == 2
    assert problems(collection) == {
        "./cats/gone.jpg": Reason.BROKEN_LINK,
        "./cats/self.jpg": Reason.LOOP_OF_LINKS,
    }


@pytest.mark.parametrize("kind", [".tar", ".tar.gz"])
def test_of_a_cut_archive_the_whole_images_are_used(kind: str, folder: Path, scan: Scan) -> None:
    path = packed(folder, ".tar")
    data = path.read_bytes()
    with tarfile.open(path) as archive:
        last = max(member.offset_data + 30 for member in archive)
    target = folder.with_name(f"cut{kind}")
    target.write_bytes(data[:last] if kind == ".tar" else gzip.compress(data)[:-1000])
    collection = scan(target)
    assert 1 <= len(collection) <= 4
    assert Reason.TRUNCATED in problems(collection).values()


def test_an_archive_that_is_none_is_refused_in_words(tmp_path: Path, scan: Scan) -> None:
    for name in ("a.zip", "a.tar", "a.tar.gz", "a.npz", "a.npy"):
        (tmp_path / name).write_bytes(b"\x1f\x8b nothing of the kind")
        with pytest.raises(UserError, match="cannot be read as"):
            scan(tmp_path / name)


def test_a_damaged_member_of_a_zip_is_one_problem(folder: Path, photo: Photo, encode: Encode, scan: Scan) -> None:
    target = folder.with_name("damaged.zip")
    image = encode(photo(20, 200, 200), "BMP")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("good.jpg", encode(photo(21)))
        archive.writestr("bad.bmp", image)
        place = archive.getinfo("bad.bmp").header_offset
    data = bytearray(target.read_bytes())
    data[place + 200 : place + 260] = bytes(60)
    target.write_bytes(data)
    collection = scan(target)
    assert names(collection) == {"good.jpg"}
    assert problems(collection) == {"bad.bmp": Reason.UNREADABLE}


def test_a_source_that_is_missing_or_empty_says_so(tmp_path: Path, scan: Scan) -> None:
    with pytest.raises(UserError, match="the path of the images is empty"):
        scan("")
    with pytest.raises(UserError, match="no file or folder"):
        scan(tmp_path / "nowhere")
    with pytest.raises(NothingReadableError, match="contains no files"):
        scan(tmp_path)
    (tmp_path / "a.jpg").write_text("x")
    with pytest.raises(NothingReadableError, match="no readable image; 1 skipped: 1 not an image"):
        scan(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="pipes are of POSIX systems")
def test_links_and_pipes_in_a_folder_each_get_their_outcome(folder: Path, scan: Scan) -> None:
    (folder / "gone.jpg").symlink_to("nowhere.jpg")
    (folder / "self.jpg").symlink_to("self.jpg")
    (folder / "cats" / "up").symlink_to("..")
    (folder / "outside").symlink_to(folder.parent)
    (folder / "same.jpg").symlink_to("dogs/0.jpg")
    (folder / "elsewhere").symlink_to("cats")
    os.mkfifo(folder / "pipe.jpg")
    collection = scan(folder)
    assert len(collection) == 6
    assert problems(collection) == {
        "gone.jpg": Reason.BROKEN_LINK,
        "self.jpg": Reason.LOOP_OF_LINKS,
        "cats/up": Reason.LOOP_OF_LINKS,
        "outside": Reason.LOOP_OF_LINKS,
        "pipe.jpg": Reason.UNREADABLE,
    }


def test_folders_linked_to_each_other_are_entered_once(
    tmp_path: Path, photo: Photo, encode: Encode, scan: Scan
) -> None:
    for number in range(12):
        place = tmp_path / "all" / str(number)
        place.mkdir(parents=True)
        (place / "a.jpg").write_bytes(encode(photo(number)))
        for other in range(12):
            if other != number:
                (place / f"to{other}").symlink_to(tmp_path / "all" / str(other))
    assert len(scan(tmp_path / "all")) == 12  # by every way through the links there would be millions


def test_strange_names_survive(tmp_path: Path, photo: Photo, encode: Encode, scan: Scan) -> None:
    root = tmp_path / "strange"
    root.mkdir()
    strange = [
        "two words.jpg",
        "quo\"te's.jpg",
        "new\nline.jpg",
        "日本 🌸.jpg",
        "-rf.jpg",
        "semi;colon,comma.jpg",
        "Icon\r",
    ]
    for number, name in enumerate(strange):
        (root / name).write_bytes(encode(photo(number)))
        (root / f"{name}.broken").write_bytes(b"no image")
    raw = os.fsencode(root) + b"/caf\xe9.jpg"  # Latin-1, as old archives leave it
    Path(os.fsdecode(raw)).write_bytes(encode(photo(99)))
    Path(os.fsdecode(raw + b".broken")).write_bytes(b"no image")
    collection = scan(root)
    assert names(collection) == {*strange, "caf\\xe9.jpg"}
    collection.save(tmp_path)
    again = Collection.load(tmp_path)
    assert names(again) == names(collection)
    assert {problem.path for problem in again.problems} == {f"{name}.broken" for name in [*strange, "caf\\xe9.jpg"]}
    assert Problem("new\nline.jpg.broken", Reason.NOT_AN_IMAGE) in again.problems


def test_a_carriage_return_in_a_name_is_read_back_from_problems(tmp_path: Path) -> None:
    found = [
        Problem("Icon\r", Reason.EMPTY),
        Problem("a\r\nb", Reason.TRUNCATED, "cut\rshort"),
    ]  # macOS writes the first
    write_problems(tmp_path / "problems.csv", found)
    assert read_problems(tmp_path / "problems.csv") == found


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may enter; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
def test_what_may_not_be_read_is_named(open_folder: Path, photo: Photo, encode: Encode, scan: Scan) -> None:
    (open_folder / "a.jpg").write_bytes(encode(photo(0)))
    (open_folder / "b.jpg").write_bytes(encode(photo(1)))
    (open_folder / "b.jpg").chmod(0)
    (open_folder / "closed").mkdir(mode=0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)  # permissions do not bind root: look at the folder as nobody
    try:
        collection = scan(open_folder)
    finally:
        if is_root:
            os.seteuid(0)
    assert names(collection) == {"a.jpg"}
    assert problems(collection) == {"b.jpg": Reason.PERMISSION_DENIED, "closed": Reason.PERMISSION_DENIED}


def test_a_film_is_not_read_to_its_end(tmp_path: Path, photo: Photo, encode: Encode, scan: Scan) -> None:
    (tmp_path / "a.jpg").write_bytes(encode(photo(0)))
    with (tmp_path / "film.mp4").open("wb") as file:
        file.write(b"\x00\x00\x00\x20ftypisom")
        file.truncate(1 << 40)  # a terabyte, on paper
    with (tmp_path / "scan.tif").open("wb") as file:
        file.write(b"II*\x00")
        file.truncate(1 << 40)
    assert problems(scan(tmp_path)) == {"film.mp4": Reason.VIDEO, "scan.tif": Reason.TOO_LARGE}


LIMITED = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
from spice.data.sources import read_file
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
with ThreadPoolExecutor(4) as pool:  # reads overlap, as in a scan
    print(sum(map(len, pool.map(read_file, [sys.argv[1]] * 32))))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on address space")
def test_reading_a_small_file_takes_little_memory(tmp_path: Path, photo: Photo, encode: Encode) -> None:
    (tmp_path / "a.jpg").write_bytes(encode(photo(0)))
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "a.jpg")], capture_output=True, text=True, check=False
    )
    assert ended.stdout.strip() == str(32 * (tmp_path / "a.jpg").stat().st_size), ended.stderr


def test_a_file_longer_than_one_read_is_read_whole(tmp_path: Path) -> None:
    data = b"\xff\xd8\xff" + random.Random(0).randbytes(3 << 20)
    (tmp_path / "a.jpg").write_bytes(data)
    assert read_file(str(tmp_path / "a.jpg")) == data
    with (tmp_path / "a.jpg").open("rb") as file:
        assert read_if_image(file, len(data), longest=2_000_000) == data[:2_000_000]


def test_progress_counts_every_entry(folder: Path, scan: Scan) -> None:
    calls: list[tuple[str, int, int]] = []
    scan(folder, progress=lambda task, done, total, figures=None: calls.append((task, done, total)))
    assert calls[-1] == ("reading images", 5, 5)


def test_a_single_image_is_a_source(folder: Path, scan: Scan) -> None:
    assert len(scan(folder / "dogs" / "0.jpg")) == 1


def test_bytes_in_a_tar_read_at_random_are_each_members_own(folder: Path, encode: Encode, scan: Scan) -> None:
    target = folder.with_name("many.tar")
    with tarfile.open(target, "w") as archive:
        for number in range(300):
            data = encode(Image.new("RGB", (8, 8), (number % 256, number // 256, 7)), "PNG")
            member = tarfile.TarInfo(f"{number}.png")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns as often as they can
    try:
        collection = scan(target, workers=8)
    finally:
        sys.setswitchinterval(interval)
    assert len(collection) == 300
    assert not (collection.copy_of >= 0).any()


@pytest.mark.parametrize(
    ("shape", "kind"), [((3, 8, 8), np.uint16), ((3, 8, 8, 3), np.uint16), ((3, 8, 8, 1), np.uint8)]
)
def test_images_of_an_array_are_exported_as_files(
    shape: tuple[int, ...], kind: type, tmp_path: Path, scan: Scan
) -> None:
    array: NDArray[np.generic] = np.random.default_rng(0).integers(0, np.iinfo(kind).max, shape).astype(kind)
    np.save(tmp_path / "images.npy", array)
    files = originals(str(tmp_path / "images.npy"), ["2", "0"], run=tmp_path / "run", extract_to=tmp_path / "out")
    assert [file.name for file in files] == ["0000002.png", "0000000.png"]
    for file, row in zip(files, (2, 0), strict=True):
        assert np.array_equal(decode(file.read_bytes(), 8).pixels, decode(array[row], 8).pixels)
    assert len(scan(tmp_path / "out")) == 2
