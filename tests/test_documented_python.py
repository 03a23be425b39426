"""Every piece of Python in the documentation runs, on a folder of images with the names that the pages use."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
PIECE = re.compile(r"^```python\n(.*?)^```|`((?:SPICE|spice\.load)\([^`]*\)\.[^`]+)`", re.MULTILINE | re.DOTALL)
# A page that reads a run comes after the one that makes it.
PAGES = ("docs/api.md", "docs/predict.md", "docs/datasets.md", "README.md")


def pieces(page: str) -> list[str]:
    """Blocks of Python, and what is fitted or loaded within a sentence."""
    return [block or inline for block, inline in PIECE.findall((ROOT / page).read_text(encoding="utf-8"))]


@pytest.fixture
def folder(tmp_path: Path, shapes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the pages assume: `photos`, `new`, `new_photos` and a copy of STL-10."""
    photos = shutil.copytree(shapes, tmp_path / "photos")
    (photos / "summer").mkdir()
    (photos / "disc" / "0.png").rename(photos / "summer" / "beach.jpg")
    (photos / "bars" / "0.png").rename(photos / "IMG_0042.jpg")
    for name in ("new", "new_photos"):
        shutil.copytree(shapes / "ring", tmp_path / name)
    stl10 = tmp_path / "data" / "stl10"
    stl10.mkdir(parents=True)
    for part in ("train", "test", "unlabeled"):
        (stl10 / f"{part}_X.bin").write_bytes(np.zeros((10, 3, 96, 96), np.uint8).tobytes())
        (stl10 / f"{part}_y.bin").write_bytes(np.arange(1, 11, dtype=np.uint8).tobytes())
    monkeypatch.setenv("SPICE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def known() -> dict[str, Any]:
    """Names that the reader of a page has: a batch of images, an encoder of one's own, what was imported above."""
    import spice

    return {"images": torch.zeros(2, 3, 224, 224), "MeanColor": SimpleNamespace, "spice": spice, "SPICE": spice.SPICE}


def test_no_page_with_python_is_forgotten() -> None:
    every = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    assert sorted(PAGES) == sorted(name for page in every if pieces(name := page.relative_to(ROOT).as_posix()))


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.filterwarnings("ignore::spice.errors.SpiceWarning")  # ten groups of four kinds of drawings
def test_every_documented_piece_of_python_runs(known: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from spice.models import encoders
    from spice.runs import open_result

    monkeypatch.setattr(encoders, "_LOADERS", dict(encoders._LOADERS))
    for page in PAGES:
        for piece in pieces(page):
            exec(compile(piece, page, "exec"), known)
    groups = open_result(Path("photos.spice")).groups
    assert {"beach", "mountains"} <= set(groups.names.values())
    assert known["encoder"].features == 1280
    assert known["dataset"].test.truth().classes
