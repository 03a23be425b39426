"""Five thousand real photos with forty broken files among them: all photos are used, and forty problems are named."""

import os
import shutil
import struct
import sys
import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from spice.data import Reason, ingest
from spice.data.problems import read_problems

# Files that are whole, but of another kind: see test_other_files.
OTHER_FILES = {Reason.VIDEO, Reason.PDF, Reason.RAW, Reason.HEIC, Reason.OTHER_FORMAT}

NOBODY = 65534


@pytest.fixture
def photos(shared_data: Path) -> Iterator[Path]:
    """5,000 photos in class folders, where any user may look (pytest's own folders are closed to others)."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o777)
        with tarfile.open(shared_data / "imagenette.tar") as archive:
            members = [member for member in archive if member.isreg()][:5000]
            archive.extractall(root / "photos", members, filter="data")
        yield root / "photos"


def png_header(width: int, height: int) -> bytes:
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))


def break_files(root: Path) -> None:
    """Five of each kind of problem."""
    whole = sorted(root.rglob("*.JPEG"))[7].read_bytes()
    for number in range(5):
        (root / f"cut {number}.jpg").write_bytes(whole[: len(whole) * (number + 2) // 8])
        (root / f"damaged {number}.png").write_bytes(
            png_header(100, 100) + b"\x00\x00\x00\x04IDATnope" + b"IEND\xaeB`\x82"
        )
        (root / f"empty {number}.gif").touch()
        (root / f"notes {number}.txt").write_text("not a picture")
        (root / f"bomb {number}.png").write_bytes(png_header(50_000, 50_000) + b"\x00\x00\x00\x00IDAT")
        (root / f"closed {number}.jpg").write_bytes(whole)
        (root / f"closed {number}.jpg").chmod(0)
        (root / f"gone {number}.jpg").symlink_to(f"nowhere {number}")
        (root / f"ring {number}").symlink_to("." if number % 2 else f"ring {number}")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs links and permissions as on Unix")
def test_forty_broken_files_among_five_thousand_photos_are_forty_lines(photos: Path) -> None:
    break_files(photos)
    store_folder = photos.parent / "store"
    store_folder.mkdir(mode=0o777)
    store_folder.chmod(0o777)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)  # permissions do not bind root
    try:
        store = ingest(photos, size=64, folder=store_folder)
    finally:
        if is_root:
            os.seteuid(0)
    assert len(store) == 5000
    assert store.channels == 3
    problems = read_problems(store_folder / "problems.csv")
    assert len((store_folder / "problems.csv").read_text().splitlines()) == 1 + 40  # a header, and a line each
    assert Counter(problem.reason for problem in problems) == dict.fromkeys(set(Reason) - OTHER_FILES, 5)
    shutil.rmtree(photos)
    assert store.take(range(0, 5000, 7)).float().std() > 30
