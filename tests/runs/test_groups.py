"""Edits applied to the head's answer."""

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from spice.errors import UserError
from spice.runs import Labels, Result, open_result, update_csv
from spice.runs.apply_edits import apply_edits
from spice.runs.artifacts import LABELS_CSV
from spice.runs.editor import Editor
from spice.runs.edits import ImageId, Learned, Merge, Move, Name, Operation, Pair, Reject, SetAside, Split
from spice.runs.groups import Base

# The run: rows 0, 1, 5 in cluster 0; rows 2, 3, 4 in cluster 2; cluster 1 is empty; row 5 is a copy of row 1.


@pytest.fixture
def editor(finished: Result) -> Editor:
    return Editor(finished.run)


def test_without_edits_the_groups_are_the_clusters(editor: Editor, labels: Labels) -> None:
    np.testing.assert_array_equal(editor.groups.group, labels.cluster)
    assert editor.groups.existing == [0, 1, 2]
    assert editor.groups.names == {}
    assert not editor.groups.by_person.any()


def test_a_name_is_given_changed_and_taken_away(editor: Editor) -> None:
    assert editor.do(Name(group=2, name="dogs")).names == {2: "dogs"}
    assert editor.do(Name(group=2, name="hounds")).names == {2: "hounds"}
    assert editor.do(Name(group=2, name="")).names == {}


def test_a_merged_group_keeps_the_first_number_and_the_first_name(editor: Editor) -> None:
    editor.do(Name(group=2, name="dogs"))
    merged = editor.do(Merge(groups=[0, 2]))
    assert merged.group.tolist() == [0] * 6
    assert merged.names == {0: "dogs"}
    assert merged.existing == [0, 1]
    assert merged.of_cluster.tolist() == [0, 1, 0]  # new images of the head's cluster 2 belong to group 0, too


def test_a_split_makes_new_groups_and_numbers_are_not_used_twice(editor: Editor) -> None:
    images = editor.base.images
    assert editor.do(Split(group=2, parts=[images([2]), images([4])])).group.tolist() == [0, 0, 3, 2, 4, 0]
    assert editor.do(Merge(groups=[2, 4])).existing == [0, 1, 2, 3]
    assert editor.do(Split(group=2, parts=[images([3])])).existing == [0, 1, 2, 3, 5]


def test_copies_of_a_moved_image_move_with_it(editor: Editor) -> None:
    moved = editor.do(Move(images=[editor.base.image(1)], group=2))
    assert moved.group.tolist() == [0, 2, 2, 2, 2, 2]
    assert moved.by_person.tolist() == [False, True, False, False, False, True]
    assert editor.do(Move(images=[editor.base.image(0)], group=None)).group[0] == 3


def test_an_image_whose_content_changed_is_found_by_its_path(editor: Editor) -> None:
    assert editor.do(Move(images=[ImageId("other", "dogs/a.png")], group=1)).group.tolist() == [0, 0, 1, 2, 2, 0]


def test_not_this_group_sends_an_image_to_the_next_best_one(editor: Editor) -> None:
    first = editor.do(Reject(images=[editor.base.image(0)], group=0))
    assert first.group[0] == 2
    assert not first.by_person[0]
    assert first.rejected == {0: frozenset({0})}
    assert editor.do(Reject(images=[editor.base.image(0)], group=2)).group[0] == -1  # both choices are ruled out


def test_a_group_set_aside_is_no_group_until_it_is_brought_back(editor: Editor) -> None:
    aside = editor.do(SetAside(group=2))
    assert aside.shown.tolist() == [0, 0, -1, -1, -1, 0]
    assert aside.group.tolist() == [0, 0, 2, 2, 2, 0]
    assert editor.do(SetAside(group=2, aside=False)).shown.tolist() == [0, 0, 2, 2, 2, 0]


def test_of_a_pair_the_less_certain_image_gives_way(editor: Editor) -> None:
    image = editor.base.image
    assert editor.do(Pair(kind="same", first=image(3), second=image(0))).group[3] == 0  # r is 0.5 against 1.0
    assert editor.do(Pair(kind="different", first=image(2), second=image(4))).group.tolist()[2:5] == [2, 0, 1]
    editor.do(Move(images=[image(3)], group=2))
    assert editor.do(Pair(kind="same", first=image(3), second=image(0))).group[[0, 3]].tolist() == [2, 2]  # was placed
    editor.do(Move(images=[image(0)], group=2))
    assert editor.do(Pair(kind="different", first=image(0), second=image(3))).group[[0, 3]].tolist() == [2, 2]


def test_what_a_person_placed_is_not_moved_by_what_was_learned(editor: Editor) -> None:
    image = editor.base.image
    editor.do(Move(images=[image(0)], group=0))
    learned = editor.do(Learned(model="learned/1", outputs=[0, 2], moved={2: [image(0), image(1)]}))
    assert learned.group.tolist() == [0, 2, 2, 2, 2, 2]
    assert learned.model == "learned/1"


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (Name(group=7, name="x"), "there is no group 7; the groups are 0, 1, 2"),
        (Name(group=0, name=" x"), "invalid name"),
        (Name(group=0, name="a\nb"), "invalid name"),
        (Name(group=0, name="dogs"), r"group 2 is already called 'dogs'; merge the two \(spice merge RUN 2 0\)"),
        (Merge(groups=[0, 0]), "merged with itself"),
        (Merge(groups=[0, 3]), "there is no group 3"),
        (Split(group=0, parts=[[ImageId("hash-2", "")]]), "needs at least one image"),
        (Split(group=0, parts=[[ImageId("hash-0", ""), ImageId("hash-1", "")]]), "must leave images in it"),
        (Move(images=[ImageId("", "no.png")], group=0), "no.png is not an image of this result"),
        (Pair(kind="same", first=ImageId("hash-1", "a"), second=ImageId("hash-1", "b")), "are the same image"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words_and_changes_nothing(
    editor: Editor, operation: Operation, words: str
) -> None:
    editor.do(Name(group=2, name="dogs"))
    with pytest.raises(UserError, match=words):
        editor.do(operation)
    assert editor.edits.revision == 1


def test_an_editor_sees_what_another_one_did(finished: Result) -> None:
    first, second = Editor(finished.run), Editor(finished.run)
    first.do(Name(group=0, name="cats"))
    assert second.groups.names == {0: "cats"}
    second.undo()
    assert first.groups.names == {}


def random_operation(editor: Editor) -> Operation:
    base, groups = editor.base, editor.groups
    rows = random.sample(range(len(base)), 2)
    group, other = random.choice(groups.existing), random.choice(groups.existing)
    return random.choice(
        [
            Name(group=group, name=random.choice(["", f"name {random.random()}"])),
            Merge(groups=[group, other]) if group != other else SetAside(group=group),
            Split(group=group, parts=[base.images(rows[:1])]),
            SetAside(group=group, aside=random.random() < 0.7),
            Move(images=base.images(rows), group=random.choice([group, None])),
            Reject(images=base.images(rows[:1]), group=group),
            Pair(kind="same", first=base.image(rows[0]), second=base.image(rows[1])),
            Pair(kind="different", first=base.image(rows[0]), second=base.image(rows[1])),
        ]
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_random_edits_and_as_many_undos_return_the_same_bytes(finished: Result, seed: int) -> None:
    random.seed(seed)
    editor, file = Editor(finished.run), finished / LABELS_CSV
    start = file.read_bytes()
    while editor.edits.revision < 100:
        with suppress(UserError):  # such as merging a group with itself
            editor.do(random_operation(editor))
    update_csv(finished.run)
    edited = file.read_bytes()
    assert edited != start
    assert all(editor.undo() is not None for _ in range(100))
    assert editor.undo() is None
    update_csv(finished.run)
    assert file.read_bytes() == start
    assert all(editor.redo() is not None for _ in range(100))
    update_csv(finished.run)
    assert file.read_bytes() == edited


def test_labels_csv_shows_group_name_and_who_decided(finished: Result) -> None:
    editor = Editor(finished.run)
    editor.do(Name(group=2, name='the "dogs"'))
    editor.do(Move(images=[editor.base.image(0)], group=2))
    editor.do(SetAside(group=0))
    update_csv(finished.run)
    lines = (finished.run / "labels.csv").read_text().splitlines()  # sorted by path: rows 0, 1, 2 first
    assert lines[0].endswith(",group,name,by_person")
    assert lines[1].endswith(',2,"the ""dogs""",1')
    assert lines[2].endswith(",-1,,0")
    assert lines[3].endswith(',2,"the ""dogs""",0')


def test_a_copy_of_labels_csv_follows_where_there_are_no_links(finished: Result) -> None:
    copy = finished.run / "labels.csv"
    content = copy.read_bytes()
    copy.unlink()
    copy.write_bytes(content)
    Editor(finished.run).do(Name(group=0, name="cats"))
    update_csv(finished.run)
    assert copy.read_bytes() == (finished / LABELS_CSV).read_bytes() != content


def test_a_base_is_read_as_it_was_kept(finished: Result, tmp_path: Path) -> None:
    finished.base.save(tmp_path / "kept" / "made.parquet")
    again = Base.load("made", tmp_path / "kept" / "made.parquet")
    assert vars(again).keys() >= {"name", "clusters", "hashes", "paths"}
    for name in ("name", "clusters", "hashes", "paths"):
        assert getattr(again, name) == getattr(finished.base, name)
    for name in ("cluster", "next_cluster", "reliability"):
        np.testing.assert_array_equal(getattr(again, name), getattr(finished.base, name))


def test_groups_of_a_result_are_its_edits_applied(finished: Result) -> None:
    editor = Editor(finished.run)
    editor.do(Merge(groups=[0, 2]))
    found = open_result(finished.run)
    np.testing.assert_array_equal(found.groups.group, apply_edits(found.base, editor.edits).group)
    assert found.groups.group.tolist() == [0] * 6
