"""A small finished run: six images, three clusters, one of them empty."""

from pathlib import Path

import numpy as np
import pytest
from made_run import add_steps, make_run
from PIL import Image

from spice.runs import Labels, Result
from spice.runs.artifacts import NEIGHBORS, PROBABILITIES, SIMILARITIES
from spice.runs.editor import Editor
from spice.runs.edits import Move, Name
from spice.runs.export import Images, images_of
from spice.runs.records import StepWarning

NAMES = ["cats/a.png", "cats/b.png", "dogs/a.png", 'with "quotes".png', "two\nlines.png", "naïve 中.png"]


@pytest.fixture
def labels() -> Labels:
    return Labels(
        path=list(NAMES),
        cluster=np.array([0, 0, 2, 2, 2, 0], np.int32),
        chance=np.array([0.9, 0.7, 0.9, 0.5, 0.9, 0.3], np.float32),
        confidence=np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], np.float32),
        margin=np.array([0.8, 0.7, 0.5, 0.4, 0.3, 0.1], np.float32),
        reliability=np.array([1.0, 0.75, 1.0, 0.5, 1.0, 0.25], np.float32),
        reliable=np.array([True, False, True, False, True, False]),
        nearest_other_cluster=np.array([2, 2, 0, 0, 1, 1], np.int32),
        prototype_rank=np.array([0, 1, 0, 2, 1, 2], np.int32),
        outlier=np.array([False, False, False, True, False, False]),
        duplicate_of=["", "", "", "", "", "cats/b.png"],
    )


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "photos" / name for name in NAMES]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (number * 40, 0, 0)).save(path)
    return paths


@pytest.fixture
def finished(tmp_path: Path, labels: Labels) -> Result:
    run = make_run(tmp_path / "run", labels, source=str(tmp_path / "photos"), copy_of={5: 1})
    np.save(run / NEIGHBORS, np.array([[1, 5, 2], [0, 5, 2], [3, 4, 0], [2, 4, 0], [2, 3, 1], [0, 2, 3]]))
    np.save(run / SIMILARITIES, np.array([[0.9, 0.8, 0.1]] * 6, np.float32))
    np.save(run / PROBABILITIES, np.array([[0.9, 0.04, 0.06]] * 6, np.float32))
    return add_steps(run.run, {"scan": run.scan}, warnings={"scan": [StepWarning(name="SomeWarning", text="try this")]})


@pytest.fixture
def edited(finished: Result, labels: Labels, photos: list[Path]) -> Images:
    """Group 0 is called <cats> & "co", group 2 has no name, group 1 is empty; a person moved row 3 to group 0."""
    editor = Editor(finished.run)
    editor.do(Name(group=0, name='<cats> & "co"'))
    editor.do(Move(images=[editor.base.image(3)], group=0))
    return images_of(labels, editor.groups, np.arange(6), photos)
