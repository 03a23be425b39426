"""Why an image is where it is, from the files of a run alone."""

from pathlib import Path

import pytest

from spice.errors import UserError
from spice.runs import RunFolder
from spice.runs.why import why


def test_why_counts_the_neighbors_that_were_asked(finished: RunFolder) -> None:
    found = why(finished.path, "cats/b.png")
    assert (found.cluster, found.agreeing, found.asked) == (0, 2, 2)  # images 0 and 5; image 2 was not asked
    assert found.others == {}
    doubtful = why(finished.path, "naïve 中.png")
    assert (doubtful.agreeing, doubtful.others) == (1, {2: 1})


def test_why_tells_copies_rank_and_neighbors(finished: RunFolder) -> None:
    found = why(finished.path, "cats/b.png")
    assert found.copies == ["naïve 中.png"]
    assert (found.prototype_rank, found.cluster_size) == (1, 3)
    assert [near.path for near in found.nearest] == ["cats/a.png", "naïve 中.png", "dogs/a.png"]
    assert found.nearest[0].similarity == pytest.approx(0.9)
    assert list(found.probabilities) == [0, 2, 1]


def test_an_image_is_found_by_name_by_path_and_by_the_end_of_its_path(
    finished: RunFolder, photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert why(finished.path, str(photos[2])).path == "dogs/a.png"
    assert why(finished.path, "b.png").path == "cats/b.png"
    monkeypatch.chdir(photos[2].parent)
    assert why(finished.path, "a.png").path == "dogs/a.png"  # the file that lies here


def test_an_image_that_is_not_there_or_not_alone_is_told(finished: RunFolder) -> None:
    with pytest.raises(UserError, match=r"c.png is not among the 6 images of this run"):
        why(finished.path, "c.png")
    with pytest.raises(UserError, match=r"2 images end in a.png \(cats/a.png, dogs/a.png"):
        why(finished.path, "a.png")


def test_what_is_missing_is_named_with_the_way_to_make_it(finished: RunFolder) -> None:
    (finished.path / "neighbors.npy").unlink()
    with pytest.raises(UserError, match=r"neighbors.npy is missing; make it again with: spice resume"):
        why(finished.path, "b.png")
