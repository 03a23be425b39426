"""Why an image is where it is, from the files of a run alone."""

from pathlib import Path

import pytest

from spice.errors import UserError
from spice.runs import Result
from spice.runs.artifacts import NEIGHBORS
from spice.runs.checks import record
from spice.runs.editor import Editor
from spice.runs.edits import Merge, SetAside
from spice.runs.explain_image import explain_image


def test_why_counts_the_neighbors_that_reliability_counts(finished: Result) -> None:
    found = explain_image(finished.run, "cats/b.png")
    assert (found.cluster, found.agreeing, found.neighbors) == (0, 2, 2)  # images 0 and 5; image 2 comes third
    assert found.others == {}
    doubtful = explain_image(finished.run, "naïve 中.png")
    assert (doubtful.agreeing, doubtful.others) == (1, {2: 1})


def test_why_lists_copies_rank_and_neighbors(finished: Result) -> None:
    found = explain_image(finished.run, "cats/b.png")
    assert found.copies == ["naïve 中.png"]
    assert (found.prototype_rank, found.cluster_size) == (1, 3)
    assert [near.path for near in found.nearest] == ["cats/a.png", "naïve 中.png", "dogs/a.png"]
    assert found.nearest[0].similarity == pytest.approx(0.9)
    assert list(found.confidences) == [0, 2, 1]


def test_why_tells_the_chance_and_what_the_image_repeats(finished: Result) -> None:
    copy = explain_image(finished.run, "naïve 中.png")
    assert copy.chance == pytest.approx(0.3)
    assert (copy.duplicate_of, copy.outlier) == ("cats/b.png", False)
    assert explain_image(finished.run, 'with "quotes".png').outlier


def test_an_image_is_found_by_name_by_path_and_by_the_end_of_its_path(
    finished: Result, photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert explain_image(finished.run, str(photos[2])).path == "dogs/a.png"
    assert explain_image(finished.run, "b.png").path == "cats/b.png"
    monkeypatch.chdir(photos[2].parent)
    assert explain_image(finished.run, "a.png").path == "dogs/a.png"  # the file in this folder


def test_an_unknown_or_ambiguous_name_is_an_error_that_says_so(finished: Result) -> None:
    with pytest.raises(UserError, match=r"c.png is not one of the 6 images of this run"):
        explain_image(finished.run, "c.png")
    with pytest.raises(UserError, match=r"2 images match a.png \(cats/a.png, dogs/a.png"):
        explain_image(finished.run, "a.png")


def test_a_missing_file_is_named_with_the_command_that_makes_it_again(finished: Result) -> None:
    (finished / NEIGHBORS).unlink()
    with pytest.raises(UserError, match=r"neighbors.npy is missing; recreate it with: spice resume"):
        explain_image(finished.run, "b.png")


def test_why_knows_the_answers_of_a_check(finished: Result) -> None:
    before = explain_image(finished.run, "cats/a.png").chance
    for row in range(5):
        record(finished.run, row, "no")
    assert explain_image(finished.run, "cats/a.png").chance < 0.3 < before


def test_the_nearest_images_are_in_their_groups_after_edits(finished: Result) -> None:
    before = {near.path: near.group for near in explain_image(finished.run, "cats/b.png").nearest}
    assert before == {"cats/a.png": 0, "naïve 中.png": 0, "dogs/a.png": 2}
    Editor(finished.run).do(Merge(groups=[1, 0]))
    Editor(finished.run).do(SetAside(group=2))
    after = explain_image(finished.run, "cats/b.png")
    assert {near.path: near.group for near in after.nearest} == {"cats/a.png": 1, "naïve 中.png": 1, "dogs/a.png": -1}
    assert [near.cluster for near in after.nearest] == list(before.values())
