"""Phones' and cameras' own formats are read, and everything that is not a picture is counted as what it is."""

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image

from spice.data import Collection, ingest
from spice.data.decode import decode
from spice.data.other_files import not_an_image, raw_preview
from spice.data.problems import BadImageError, Reason, skipped_in_words
from spice.data.sources import HEAD
from spice.errors import NothingReadableError

Photo = Callable[..., Image.Image]
Encode = Callable[..., bytes]
Scan = Callable[..., Collection]


def test_heic_files_of_a_phone_are_read(tmp_path: Path, photo: Photo, scan: Scan) -> None:
    heif = pytest.importorskip("pillow_heif")
    picture = photo(1, 64, 64)
    heif.from_pillow(picture).save(tmp_path / "phone.heic", quality=90)
    collection = scan(tmp_path)
    assert collection.paths == ["phone.heic"]
    assert collection.table["width"].to_pylist() == [64]
    decoded = decode((tmp_path / "phone.heic").read_bytes(), 64).pixels
    expected = np.moveaxis(np.asarray(picture), -1, 0).astype(int)
    assert np.abs(decoded.astype(int) - expected).mean() < 6


def test_without_its_package_a_heic_file_says_what_to_install(
    photo: Photo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heif = pytest.importorskip("pillow_heif")
    heif.from_pillow(photo(1)).save(tmp_path / "phone.heic")
    monkeypatch.delitem(Image.OPEN, "HEIF")
    with pytest.raises(BadImageError, match="pip install pillow-heif") as error:
        decode((tmp_path / "phone.heic").read_bytes(), 32)
    assert error.value.reason is Reason.HEIC


def dng(preview: bytes, *, orientation: int = 1) -> bytes:
    """A raw file: a preview in the first directory, a mosaic of 64 x 64 values in the second."""
    mosaic = np.tile(np.arange(64, dtype="<u2") * 900, 64).tobytes()
    main, side = 8, 8 + 2 + 12 * 12 + 4
    first_data = side + 2 + 14 * 12 + 4
    places = {"preview": first_data, "mosaic": first_data + len(preview) + len(preview) % 2}
    places["matrix"] = places["mosaic"] + len(mosaic)
    matrix = struct.pack("<18i", *(value for one in (1, 0, 0, 0, 1, 0, 0, 0, 1) for value in (one, 1)))
    byte, short, long_, rational = 1, 3, 4, 10
    directories = [
        [
            (254, long_, 1, 1), (256, long_, 1, 48), (257, long_, 1, 40), (258, short, 1, 8), (259, short, 1, 7),
            (262, short, 1, 6), (273, long_, 1, places["preview"]), (274, short, 1, orientation),
            (277, short, 1, 3), (279, long_, 1, len(preview)), (330, long_, 1, side),
            (50706, byte, 4, 0x00000401),
        ],
        [
            (254, long_, 1, 0), (256, long_, 1, 64), (257, long_, 1, 64), (258, short, 1, 16), (259, short, 1, 1),
            (262, short, 1, 32803), (273, long_, 1, places["mosaic"]), (277, short, 1, 1), (278, long_, 1, 64),
            (279, long_, 1, len(mosaic)), (33421, short, 2, 2 | 2 << 16), (33422, byte, 4, 0x02010100),
            (50721, rational, 9, places["matrix"]), (50717, long_, 1, 65535),
        ],
    ]  # fmt: skip
    out = struct.pack("<2sHI", b"II", 42, main)
    for entries in directories:
        out += struct.pack("<H", len(entries))
        out += b"".join(struct.pack("<HHII", *entry) for entry in sorted(entries)) + bytes(4)
    return out + preview + bytes(len(preview) % 2) + mosaic + matrix


def test_a_raw_file_shows_its_preview_upright(tmp_path: Path, photo: Photo, encode: Encode, scan: Scan) -> None:
    pytest.importorskip("rawpy")
    picture = photo(5, 48, 40)
    (tmp_path / "camera.DNG").write_bytes(dng(encode(picture, quality=95)))
    (tmp_path / "turned.dng").write_bytes(dng(encode(picture, quality=95), orientation=6))
    with ZipFile(tmp_path / "raws.zip", "w") as archive:
        archive.write(tmp_path / "camera.DNG", "inside/camera.dng")
    collection = scan(tmp_path)
    sizes = {row["path"]: (row["width"], row["height"]) for row in collection.table.to_pylist()}
    assert sizes == {"camera.DNG": (48, 40), "turned.dng": (40, 48)}
    assert scan(tmp_path / "raws.zip").paths == ["inside/camera.dng"]
    with pytest.raises(BadImageError, match="no preview can be read"):
        raw_preview(b"II*\0 not a raw file at all")


def test_without_its_package_a_raw_file_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rawpy", None)
    with pytest.raises(BadImageError, match="pip install rawpy") as error:
        raw_preview(b"")
    assert error.value.reason is Reason.RAW


OTHERS = {
    "film.mp4": (b"\0\0\0\x20ftypisom" + bytes(40), Reason.VIDEO),
    "clip.mov": (b"\0\0\0\x14ftypqt  " + bytes(40), Reason.VIDEO),
    "old.avi": (b"RIFF\0\0\0\0AVI LIST" + bytes(40), Reason.VIDEO),
    "web.webm": (b"\x1a\x45\xdf\xa3" + bytes(40), Reason.VIDEO),
    "scan.pdf": (b"%PDF-1.7\n" + bytes(40), Reason.PDF),
    "layers.psd": (b"8BPS\0\1" + bytes(40), Reason.OTHER_FORMAT),
    "knee.dcm": (bytes(128) + b"DICM" + bytes(40), Reason.OTHER_FORMAT),
    "logo.svg": (b"<?xml version='1.0'?>\n<!-- made by hand -->\n<svg width='40'/>", Reason.OTHER_FORMAT),
    "figure.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n", Reason.OTHER_FORMAT),  # decoding it would start Ghostscript
    "icon.ico": (b"\0\0\1\0\1\0" + bytes(40), Reason.OTHER_FORMAT),
    "notes.txt": (b"Beach, 12 May\n" * 5, Reason.NOT_AN_IMAGE),
    ".DS_Store": (b"\0\0\0\1Bud1" + bytes(40), Reason.NOT_AN_IMAGE),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_a_picture_is_counted_as_what_it_is(name: str, tmp_path: Path, photo: Photo, scan: Scan) -> None:
    content, reason = OTHERS[name]
    assert not_an_image(content[:HEAD]).reason is reason
    (tmp_path / name).write_bytes(content)
    photo(1).save(tmp_path / "beach.png")
    assert [(problem.path, problem.reason) for problem in scan(tmp_path).problems] == [(name, reason)]


def test_what_was_skipped_is_told_by_kind_with_what_to_do_first(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"not an image": 50, "raw": 4, "HEIC": 2, "video": 1200, "PDF": 1}
    monkeypatch.setattr("spice.data.problems.find_spec", lambda _: None)
    assert skipped_in_words(counts) == (
        "1,257 skipped: 2 HEIC (pip install pillow-heif), 4 raw (pip install rawpy), 1,200 videos, 1 PDF, 50 not images"
    )
    monkeypatch.setattr("spice.data.problems.find_spec", lambda _: object())
    assert skipped_in_words({"raw": 4}) == "4 skipped: 4 raw"


def test_a_folder_without_pictures_is_told_by_kind(tmp_path: Path) -> None:
    for name, (content, _) in OTHERS.items():
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    with pytest.raises(
        NothingReadableError,
        match=r"no readable image; 12 skipped: 5 in formats that are not read, 4 videos, .* not images",
    ):
        ingest(tmp_path / "in", size=32, folder=tmp_path / "store")
