"""Files that change behind the program's back are noticed, and never give other labels in silence."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from damage import cut, flip_a_bit
from small_settings import with_few_heads

from spice.pipeline import cluster
from spice.pipeline.execute import DamagedFileWarning
from spice.presets import standard
from spice.runs import open_result
from spice.runs.artifacts import FEATURES, HEAD, LABELS, NEIGHBORS, VIEWS, Artifact
from spice.settings import RunSettings


def settings(clusters: int) -> RunSettings:
    return with_few_heads(standard(clusters=clusters, size=64), heads=4, epochs=6)


@pytest.fixture(scope="module")
def finished(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One result, and what a second one of three clusters must be."""
    folder = tmp_path_factory.mktemp("finished")
    cluster(shapes, settings(4), folder / "run")
    cluster(shapes, settings(3), Path(shutil.copytree(folder / "run", folder / "expected", symlinks=True)))
    return folder


@pytest.mark.parametrize("damage", [flip_a_bit, cut])
@pytest.mark.parametrize(
    ("artifact", "inside"), [(FEATURES, ""), (VIEWS, "weak.npy"), (VIEWS, "strong.npy"), (NEIGHBORS, "")]
)
def test_a_damaged_intermediate_is_made_again(
    finished: Path, shapes: Path, tmp_path: Path, artifact: Artifact, inside: str, damage: Callable[[Path], None]
) -> None:
    run = Path(shutil.copytree(finished / "run", tmp_path / "run", symlinks=True))
    damage(open_result(run) / artifact / inside)
    with pytest.warns(DamagedFileWarning, match=f"{inside or artifact.name} changed after it was written; recreating"):
        cluster(shapes, settings(3), run)
    assert (run / "labels.csv").read_bytes() == (finished / "expected" / "labels.csv").read_bytes()


def test_verify_names_every_damaged_file(
    finished: Path, tmp_path: Path, spice: Callable[..., tuple[int, str, str]]
) -> None:
    run = Path(shutil.copytree(finished / "run", tmp_path / "run", symlinks=True))
    assert spice("verify", run)[0] == 0
    result = open_result(run)
    shutil.rmtree(result / VIEWS)  # which may be deleted
    assert spice("verify", run)[0] == 0
    for path in (result / HEAD, result / LABELS, result.folder / "model" / "head.safetensors"):
        flip_a_bit(path)
    code, _, err = spice("verify", run)
    assert code == 2
    assert err.count("damaged    ") == 3
    assert "head.safetensors" in err


def test_a_record_with_another_key_counts_for_nothing(finished: Path, shapes: Path, tmp_path: Path) -> None:
    """A tampered record, or a page that another version of the program wrote: the step is run again."""
    run = Path(shutil.copytree(finished / "run", tmp_path / "run", symlinks=True))
    result = open_result(run)
    for record in ((result / HEAD).with_name("heads.json"), result.folder / "report.json"):
        key = json.loads(record.read_text())["key"]
        record.write_text(record.read_text().replace(key, "0" * len(key)))
        cluster(shapes, settings(4), run)
        assert json.loads(record.read_text())["key"] == key
    assert (run / "labels.csv").read_bytes() == (finished / "run" / "labels.csv").read_bytes()


def test_a_damaged_store_is_read_again(shapes: Path, tmp_path: Path) -> None:
    few = settings(4).model_copy(update={"views": settings(4).views.model_copy(update={"weak": 1, "strong": 1})})
    cluster(shapes, few, tmp_path / "whole", page=False)
    cluster(shapes, few, tmp_path / "run", last="features", page=False)
    for step in ("encode", "views", "neighbors"):
        for folder in (tmp_path / "run" / "steps").glob(f"{step}-*"):
            shutil.rmtree(folder)
    flip_a_bit(tmp_path / "run" / "store" / "64" / "color.u8")
    with pytest.warns(DamagedFileWarning, match=r"decoded images in .*64 are damaged .* rereading the images"):
        cluster(shapes, few, tmp_path / "run", page=False)
    assert (tmp_path / "run" / "labels.csv").read_bytes() == (tmp_path / "whole" / "labels.csv").read_bytes()


def test_a_rescan_sees_images_that_changed_behind_their_time(
    finished: Path, shapes: Path, tmp_path: Path, spice: Callable[..., tuple[int, str, str]]
) -> None:
    run = Path(shutil.copytree(finished / "run", tmp_path / "run", symlinks=True))
    images = Path(shutil.copytree(shapes, tmp_path / "images"))
    manifest = run / "manifest.json"
    manifest.write_text(manifest.read_text().replace(str(shapes), str(images)))
    assert spice("resume", run)[0] == 0
    smallest, *_, largest = sorted(images.rglob("*.png"), key=lambda path: path.stat().st_size)
    status = largest.stat()
    largest.write_bytes(smallest.read_bytes().ljust(status.st_size, b"\0"))
    os.utime(largest, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert spice("resume", run)[0] == 0, "name, size and time of change are trusted"
    code, _, err = spice("resume", run, "--rescan")
    assert code == 2
    assert "the images have changed since this run began" in err
