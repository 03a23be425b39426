"""Damaged archives and arrays, and mazes of links: reported in words or as problems, never a crash or a hang."""

import gzip
import io
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spice.data import Collection, Reason
from spice.data.sources import read_if_image
from spice.errors import UserError

Scan = Callable[..., Collection]
NAMES = [f"photos/ä{number}.png" for number in range(4)]


def picture(number: int) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, name in enumerate(NAMES):
            archive.writestr(name, picture(number))
    return file.getvalue()


def tarred(mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        for number, name in enumerate(NAMES):
            member, data = tarfile.TarInfo(name), picture(number)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def array(*, compressed: bool) -> bytes:
    file, images = io.BytesIO(), np.zeros((3, 8, 8), dtype=np.uint8)
    if compressed:
        np.savez_compressed(file, images=images)
    else:
        np.save(file, images)
    return file.getvalue()


WHOLE = {
    "images.zip": zipped(),
    "images.tar": tarred("w"),
    "images.tar.gz": tarred("w:gz"),
    "images.npz": array(compressed=True),
    "images.npy": array(compressed=False),
}


def damaged(whole: bytes, luck: random.Random) -> bytes:
    data = bytearray(whole)
    place = luck.randrange(len(data))
    match luck.randrange(3):
        case 0:
            data[place] ^= 1 << luck.randrange(8)
        case 1:
            del data[place : place + luck.randrange(1, 40)]
        case 2:
            data[place:place] = luck.randbytes(luck.randrange(1, 20))
    return bytes(data)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", WHOLE)
def test_a_damaged_file_of_many_images_is_reported_in_words(name: str, tmp_path: Path, scan: Scan) -> None:
    luck, outcomes = random.Random(0), set[type]()
    for _ in range(60):
        (tmp_path / name).write_bytes(damaged(WHOLE[name], luck))
        try:
            outcomes.add(type(scan(tmp_path / name, workers=1)))
        except UserError:
            outcomes.add(UserError)
    assert outcomes == {Collection, UserError}  # both happened, and nothing else


def test_a_member_of_a_zip_whose_name_is_damaged_is_one_problem(tmp_path: Path, scan: Scan) -> None:
    data = bytearray(WHOLE["images.zip"])
    data[data.index("ä2".encode())] = 0xFF  # in the member's own header, not in the table at the end
    (tmp_path / "images.zip").write_bytes(data)
    found = scan(tmp_path / "images.zip")
    assert len(found) == 3
    assert [(problem.path, problem.reason) for problem in found.problems] == [(NAMES[2], Reason.UNREADABLE)]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("length", [b"\xff" + (256**11 - 512).to_bytes(11, "big"), b"not a number"])
def test_a_tar_with_a_damaged_header_says_that_there_was_more(length: bytes, tmp_path: Path, scan: Scan) -> None:
    data = bytearray(tarred("w:"))
    start = data.rindex(b"ustar") - 257
    header = data[start : start + 512]
    header[124:136] = length  # one of them negative: it leads back to this very header
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    data[start : start + 512] = header
    (tmp_path / "images.tar").write_bytes(data)
    (tmp_path / "images.tar.gz").write_bytes(gzip.compress(data))
    for name in ("images.tar", "images.tar.gz"):
        found = scan(tmp_path / name)
        assert set(found.paths) == set(NAMES[:-1])
        assert [problem.reason for problem in found.problems] == [Reason.TRUNCATED]


@pytest.mark.timeout(20)
def test_a_glob_over_links_that_lead_back_ends(tmp_path: Path, scan: Scan) -> None:
    for number, name in enumerate(("cats", "dogs")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "up").symlink_to("..", target_is_directory=True)
        (tmp_path / name / ".1.png").write_bytes(picture(number))
    expected = {f"{tmp_path}/cats/.1.png", f"{tmp_path}/dogs/.1.png"}
    assert set(scan(f"{tmp_path}/**/*.png").paths) == expected
    assert set(scan(f"{tmp_path}/**").paths) == expected


def test_a_file_is_read_in_pieces_however_large_it_may_be() -> None:
    """A read allocates what it asks for: in a container with little memory the largest allowed size is not there."""
    asked: list[int] = []

    class Recorded(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            asked.append(-1 if size is None else size)
            return super().read(size)

    whole = b"\x89PNG\r\n\x1a\n" + bytes(3_000_000)
    assert read_if_image(Recorded(whole), len(whole)) == whole
    assert 0 < max(asked) <= 1 << 20
    assert min(asked) > 0
