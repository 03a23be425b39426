"""Images to test with: made here, small, and unlike each other."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from PIL import Image

from spice.data import Collection, SourceLike, ingest


@pytest.fixture(scope="session")
def photo() -> Callable[..., Image.Image]:
    """photo(seed, width=48, height=40): smooth random color, which JPEG keeps nearly as it is."""

    def make(seed: int, width: int = 48, height: int = 40) -> Image.Image:
        coarse = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
        return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)

    return make


@pytest.fixture(scope="session")
def encode() -> Callable[..., bytes]:
    """encode(image, "PNG", **options): the bytes of a file."""

    def save(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
        buffer = BytesIO()
        image.save(buffer, kind, **options)
        return buffer.getvalue()

    return save


@pytest.fixture(scope="session")
def scan() -> Callable[..., Collection]:
    """scan(source, **options of ingest): what a source holds; nothing is kept."""

    def read(source: SourceLike, **options: Any) -> Collection:
        with TemporaryDirectory() as folder:  # not pytest's own, which is closed to other users
            return ingest(source, size=32, folder=Path(folder), **options).collection

    return read
