"""Labels from the user become edits (names, placed images), and joint training learns them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from explored_runs import make_explored_run

from spice.errors import UserError
from spice.runs.apply_edits import apply_edits
from spice.runs.editor import Editor
from spice.runs.edits import Edits, Merge, Move, Name, SetAside, read_edits
from spice.runs.groups import Base
from spice.stages.groups import given_labels
from spice.stages.groups.given_labels import (
    LabelsByRow,
    SharedGroupError,
    apply_labels,
    labels_by_row,
    placed_clusters,
)
from spice.stages.joint.sampling import Labeled

PATHS = ["a/1.jpg", "a/2.jpg", "b/3.jpg"]


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    """Four groups of twelve images, each with two different halves."""
    return Editor(make_explored_run(tmp_path / "run").run)


def labels(editor: Editor, **rows: list[int]) -> dict[str, str]:
    """The names by path, for images given by row."""
    return {editor.base.paths[row]: name for name, chosen in rows.items() for row in chosen}


def of(editor: Editor, group: int) -> list[int]:
    return np.flatnonzero(editor.base.cluster == group).tolist()


def test_labels_match_paths_with_other_separators_and_spaces() -> None:
    found = labels_by_row({"./a//1.jpg": " cat", "b\\3.jpg": "big  dog"}, PATHS)
    assert (found.row.tolist(), found.name.tolist(), found.names) == ([0, 2], [1, 0], ["big dog", "cat"])


def test_a_label_without_an_image_is_refused() -> None:
    message = r"a label for c/9\.jpg and 1 more, but no such image; paths look like this: a/1\.jpg"
    with pytest.raises(UserError, match=message):
        labels_by_row({"a/1.jpg": "cat", "c/9.jpg": "cat", "c/8.jpg": "cat"}, PATHS)


def test_the_group_with_most_images_of_a_name_gets_the_name_and_all_these_images(editor: Editor) -> None:
    stray = of(editor, 3)[0]
    given = labels(editor, cat=[*of(editor, 1)[:2], stray], dog=of(editor, 0)[:1])
    apply_labels(editor, given)
    groups = editor.groups
    assert groups.names == {0: "dog", 1: "cat"}
    assert groups.group[stray] == 1
    assert groups.by_person.sum() == 4
    assert apply_labels(editor, given) == []  # nothing to change


def test_names_are_matched_one_to_one_so_that_every_name_has_a_group(editor: Editor) -> None:
    # Both names have images in group 0. "cat" also has one in group 2, so "dog" gets group 0.
    apply_labels(editor, labels(editor, cat=[*of(editor, 0)[:2], of(editor, 2)[0]], dog=of(editor, 0)[2:3]))
    assert editor.groups.names == {0: "dog", 2: "cat"}


def test_a_group_that_already_has_the_name_gets_the_images(editor: Editor) -> None:
    apply_labels(editor, labels(editor, cat=of(editor, 1)[:1]))
    apply_labels(editor, labels(editor, cat=of(editor, 2)[:3]))
    assert editor.groups.names == {1: "cat"}
    assert (editor.groups.group == 1).sum() == 15


def test_every_name_of_many_gets_the_group_that_already_has_it() -> None:
    names = [f"name {number:03}" for number in range(100)]
    cluster = np.arange(100, dtype=np.int32)
    base = Base(
        "r",
        clusters=100,
        hashes=names,
        paths=names,
        cluster=cluster,
        next_cluster=cluster,
        reliability=np.ones(100, np.float32),
    )
    groups = apply_edits(base, Edits())._replace(names=dict(enumerate(names)))
    in_other_groups = LabelsByRow(np.roll(np.arange(100), 1), np.arange(100), names)
    assert given_labels._match(in_other_groups, groups) == {number: number for number in range(100)}


def test_two_names_in_one_group_are_refused_or_split_the_group(editor: Editor) -> None:
    rank = editor.result.labels.prototype_rank
    halves = [[row for row in of(editor, 0) if rank[row] % 2 == half] for half in (0, 1)]
    given = labels(editor, cat=halves[0][:2], dog=halves[1][:2])
    with pytest.raises(SharedGroupError, match=r"'(cat|dog)' and '(cat|dog)' are both in group 0: split it"):
        apply_labels(editor, given)
    assert read_edits(editor.run).revision == 0
    apply_labels(editor, given, split=True)
    groups = editor.groups
    assert sorted(groups.names.values()) == ["cat", "dog"]
    named = {name: group for group, name in groups.names.items()}
    # Every image of the group went to the labels that it resembles.
    assert all((groups.group[half] == named[name]).all() for name, half in zip(("cat", "dog"), halves, strict=True))


def test_if_a_label_is_refused_no_label_is_applied(editor: Editor) -> None:
    editor.do(SetAside(group=2))
    # "ant" would create a group. "bee" and "cat" share one.
    given = labels(editor, ant=of(editor, 2)[:1], bee=of(editor, 0)[:2], cat=of(editor, 0)[2:4])
    with pytest.raises(SharedGroupError):
        apply_labels(editor, given)
    with pytest.raises(UserError, match=r"invalid name 'x{201}'"):
        apply_labels(editor, labels(editor, ant=of(editor, 1)[:1]) | labels(editor, **{"x" * 201: of(editor, 3)[:1]}))
    assert read_edits(editor.run).revision == 1


def test_a_split_that_would_leave_no_image_is_refused_before_anything_is_written(editor: Editor) -> None:
    editor.do(Name(group=0, name="dog"))
    editor.do(SetAside(group=2))
    # "ant" would create a group. "dog" keeps group 0 for its name, but all images there resemble "pug" more.
    given = labels(editor, ant=of(editor, 2)[:1], dog=of(editor, 3)[:2], pug=of(editor, 0)[:2])
    with pytest.raises(UserError, match="cannot split dog: all its images resemble those labeled 'pug' more"):
        apply_labels(editor, given, split=True)
    assert read_edits(editor.run).revision == 2


def test_the_name_of_a_group_that_was_set_aside_is_refused(editor: Editor) -> None:
    editor.do(Name(group=2, name="cat"))
    editor.do(SetAside(group=2))
    with pytest.raises(UserError, match="group 2 is called 'cat' but was set aside; bring it back"):
        apply_labels(editor, labels(editor, cat=of(editor, 1)[:2]))
    assert read_edits(editor.run).revision == 2


def test_labels_of_images_in_no_group_create_a_group(editor: Editor) -> None:
    editor.do(SetAside(group=2))
    apply_labels(editor, labels(editor, cat=of(editor, 2)[:2]))
    assert editor.groups.names == {4: "cat"}
    assert (editor.groups.group == 4).sum() == 2


def test_placed_images_are_learned_as_the_largest_cluster_of_their_group(editor: Editor) -> None:
    base = editor.base
    editor.do(Merge(groups=[1, 2]))
    editor.do(Move(images=base.images(of(editor, 0)[:1]), group=1))  # a group of clusters 1 and 2
    editor.do(Move(images=base.images(of(editor, 3)[:1]), group=0))
    editor.do(Move(images=base.images(of(editor, 3)[1:2]), group=None))  # a new group, which the head does not know
    moved = [base.paths[of(editor, 0)[0]], base.paths[of(editor, 3)[0]]]
    assert placed_clusters(editor) == {moved[0]: 1, moved[1]: 0}


def test_placed_images_override_reliable_labels() -> None:
    reliable = Labeled(torch.tensor([0, 2]), torch.tensor([2, 0]))
    merged = reliable.override({"a/2.jpg": 1, "b/3.jpg": 1}, PATHS)
    assert (merged.image.tolist(), merged.cluster.tolist()) == ([0, 1, 2], [2, 1, 1])
    assert reliable.override({}, PATHS).image.tolist() == [0, 2]
