"""The store of decoded images: damage is found when an image is taken, and `rescan` reads every file again."""

import os
from pathlib import Path

import numpy as np
import pytest
from damage import flip_a_bit
from PIL import Image

from spice.data import ingest
from spice.data.pixels import COLOR, GRAY
from spice.data.store import DamagedStoreError


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    noise = np.random.default_rng(0)
    for number in range(6):
        shape = (20, 20) if number % 2 else (20, 20, 3)
        Image.fromarray(noise.integers(0, 256, shape, dtype=np.uint8)).save(folder / f"{number}.png")
    return folder


@pytest.mark.parametrize("name", [GRAY, COLOR])
def test_a_flipped_bit_in_the_pixels_is_found(photos: Path, tmp_path: Path, name: str) -> None:
    before = ingest(photos, size=16, folder=tmp_path / "store").take(range(6))
    flip_a_bit(tmp_path / "store" / name)
    with pytest.raises(DamagedStoreError, match=r"store are damaged \(at \d.png\); reread the images with --rescan"):
        ingest(photos, size=16, folder=tmp_path / "store").take(range(6))
    assert ingest(photos, size=16, folder=tmp_path / "store", rescan=True).take(range(6)).equal(before)


@pytest.mark.parametrize("place", [0.2, 0.35, 0.5, 0.65])
def test_a_damaged_journal_is_read_again(photos: Path, tmp_path: Path, place: float) -> None:
    before = ingest(photos, size=16, folder=tmp_path / "store").take(range(6))
    (part,) = (tmp_path / "store" / "journal").iterdir()
    flip_a_bit(part, at=place)
    assert ingest(photos, size=16, folder=tmp_path / "store").take(range(6)).equal(before)


def test_a_content_that_changed_behind_its_size_and_time_is_found_by_a_rescan(photos: Path, tmp_path: Path) -> None:
    first = ingest(photos, size=16, folder=tmp_path / "store").collection
    file, status = photos / "0.png", (photos / "0.png").stat()
    content = bytearray(file.read_bytes())
    pixels = np.asarray(Image.open(file)).copy()
    pixels[0, 0, 0] ^= 1
    Image.fromarray(pixels).save(file)
    changed = file.read_bytes()
    file.write_bytes(changed + bytes(max(0, len(content) - len(changed))))  # bytes after a PNG's end are ignored
    assert file.stat().st_size == len(content), "or the stamp would tell"
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert ingest(photos, size=16, folder=tmp_path / "store").collection.identity == first.identity
    assert ingest(photos, size=16, folder=tmp_path / "store", rescan=True).collection.identity != first.identity
