"""Groups written for other programs: links or copies, never moves, and nothing overwritten."""

import csv
import errno
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from spice.errors import UserError
from spice.runs import Labels
from spice.runs.export import Shape, images_of
from spice.runs.export import export as export_images
from spice.runs.groups import Base, unedited


def fingerprint(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def export(labels: Labels, originals: list[Path], destination: Path, *, shape: Shape, copy: bool = False) -> Path:
    """Export the clusters, which nobody has edited."""
    base = Base.of("made", labels, labels.path, clusters=3)
    images = images_of(labels, unedited(base), np.arange(len(labels.path)), originals)
    return export_images(images, destination, shape=shape, copy=copy)


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("shape", ["folders", "imagefolder", "csv", "parquet", "labelstudio", "fiftyone"])
def test_originals_are_never_moved_or_changed(
    labels: Labels, photos: list[Path], tmp_path: Path, shape: Shape, copy: bool
) -> None:
    before = fingerprint(tmp_path / "photos")
    export(labels, photos, tmp_path / "out", shape=shape, copy=copy)
    assert fingerprint(tmp_path / "photos") == before


def test_folders_put_typical_images_first_and_doubtful_ones_apart(
    labels: Labels, photos: list[Path], tmp_path: Path
) -> None:
    export(labels, photos, tmp_path / "out", shape="folders")
    found = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.png"))
    assert found == [
        "group_00/doubtful/1_b.png",
        "group_00/doubtful/2_naïve 中.png",
        "group_00/reliable/0_a.png",
        'group_02/doubtful/2_with "quotes".png',
        "group_02/reliable/0_a.png",
        "group_02/reliable/1_two\nlines.png",
    ]


def test_links_lead_to_the_originals_and_copies_stand_alone(labels: Labels, photos: list[Path], tmp_path: Path) -> None:
    export(labels, photos, tmp_path / "links", shape="imagefolder")
    export(labels, photos, tmp_path / "copies", shape="imagefolder", copy=True)
    assert (tmp_path / "links" / "group_02" / "a.png").resolve() == photos[2]
    copy = tmp_path / "copies" / "group_02" / "a.png"
    assert not copy.is_symlink()
    assert copy.read_bytes() == photos[2].read_bytes()


def test_two_images_of_one_name_in_one_cluster_are_both_there(
    labels: Labels, photos: list[Path], tmp_path: Path
) -> None:
    together = labels._replace(cluster=np.zeros(6, np.int32))
    export(together, photos, tmp_path / "out", shape="imagefolder", copy=True)
    names = sorted(path.name for path in (tmp_path / "out" / "group_00").iterdir())
    assert len(names) == 6
    assert "a-2.png" in names


def test_tables_hold_every_row(labels: Labels, photos: list[Path], tmp_path: Path) -> None:
    export(labels, photos, tmp_path / "new" / "out.csv", shape="csv")
    written = export(labels, photos, tmp_path / "out", shape="parquet")
    assert written == tmp_path / "out.parquet"
    with (tmp_path / "new" / "out.csv").open(newline="", encoding="utf-8") as file:
        assert [row["path"] for row in csv.DictReader(file)] == labels.path
    assert pq.read_table(tmp_path / "out.parquet")["cluster"].to_pylist() == labels.cluster.tolist()


def test_label_studio_gets_predictions_to_confirm(labels: Labels, photos: list[Path], tmp_path: Path) -> None:
    export(labels, photos, tmp_path / "out", shape="labelstudio")
    tasks = read(tmp_path / "out" / "tasks.json")
    assert tasks[0]["data"]["image"] == "/data/local-files/?d=cats/a.png"
    assert tasks[5]["data"]["image"] == "/data/local-files/?d=na%C3%AFve%20%E4%B8%AD.png"
    assert tasks[1]["predictions"][0]["score"] == 0.7
    config = (tmp_path / "out" / "config.xml").read_text()
    for task in tasks:
        choice = task["predictions"][0]["result"][0]["value"]["choices"][0]
        assert f'<Choice value="{choice}"/>' in config
    assert str(tmp_path / "photos") in (tmp_path / "out" / "README.txt").read_text()


def test_fiftyone_finds_every_original(labels: Labels, photos: list[Path], tmp_path: Path) -> None:
    export(labels, photos, tmp_path / "out", shape="fiftyone")
    found = read(tmp_path / "out" / "labels.json")["labels"]
    placed = {path.stem: path.resolve() for path in (tmp_path / "out" / "data").iterdir()}
    assert placed == {key: photos[int(key)].resolve() for key in found}
    assert [found[str(row)]["attributes"]["path"] for row in range(len(photos))] == labels.path
    assert found["2"]["label"] == "group_02"
    assert found["1"]["attributes"]["reliable"] is False


def test_nothing_is_overwritten(labels: Labels, photos: list[Path], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.csv").touch()
    with pytest.raises(UserError, match="already exists"):
        export(labels, photos, tmp_path / "out", shape="folders")
    with pytest.raises(UserError, match="already exists"):
        export(labels, photos, tmp_path / "out" / "mine", shape="csv")  # the ending is added, then found taken


def test_missing_originals_are_named(labels: Labels, photos: list[Path], tmp_path: Path) -> None:
    photos[3].unlink()
    with pytest.raises(UserError, match=r"with \"quotes\".png no longer exists; only --as csv"):
        export(labels, photos, tmp_path / "out", shape="folders")
    assert not (tmp_path / "out").exists()
    export(labels, photos, tmp_path / "out.csv", shape="csv")


@pytest.mark.parametrize("shape", ["folders", "imagefolder", "labelstudio", "fiftyone"])
def test_names_that_are_not_utf_8_are_no_trouble(
    labels: Labels, photos: list[Path], tmp_path: Path, shape: Shape
) -> None:
    odd = photos[0].rename(Path(os.fsdecode(bytes(photos[0].parent) + b"/caf\xe9.png")))
    export(labels, [odd, *photos[1:]], tmp_path / "out", shape=shape)
    if shape == "labelstudio":
        assert read(tmp_path / "out" / "tasks.json")[0]["data"]["image"].endswith("cats/caf%E9.png")
    if shape == "folders":
        assert any(b"caf\xe9" in bytes(path) for path in (tmp_path / "out").rglob("*.png"))


@pytest.mark.parametrize("copy", [False, True])
def test_names_as_long_as_can_be_are_shortened(labels: Labels, photos: list[Path], tmp_path: Path, copy: bool) -> None:
    long = [photo.rename(photo.with_name(f"{row}{'é' * 125}.png")) for row, photo in enumerate(photos)]
    export(labels, long, tmp_path / "folders", shape="folders", copy=copy)
    export(labels._replace(cluster=labels.cluster * 0), long, tmp_path / "flat", shape="imagefolder", copy=copy)
    for folder in ("folders", "flat"):
        written = list((tmp_path / folder).rglob("*.png"))
        assert sorted(path.read_bytes() for path in written) == sorted(path.read_bytes() for path in long)


@pytest.mark.parametrize("shape", ["folders", "imagefolder", "labelstudio", "fiftyone"])
@pytest.mark.parametrize("there", [False, True])
def test_an_export_that_fails_leaves_nothing_half_written(
    labels: Labels, photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: Shape, there: bool
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if there:
        (tmp_path / "out").mkdir()
    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as full:
        full.setattr(shutil, "copy2", fail)
        full.setattr(json, "dumps", fail)
        with pytest.raises(OSError, match="No space left"):
            export(labels, photos, tmp_path / "out", shape=shape, copy=True)
    assert sorted(tmp_path.iterdir()) == before
    export(labels, photos, tmp_path / "out", shape=shape, copy=True)
