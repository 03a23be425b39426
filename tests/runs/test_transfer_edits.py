"""Names and corrections live on in other results of a run: more images, another K, another head."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from made_run import make_run

from spice.runs import Labels, open_result, read_manifest, save_edited_groups
from spice.runs.apply_edits import apply_edits
from spice.runs.edits import Edit, Edits, Merge, Move, Name, Operation, Reject, SetAside, Split, append_locked, editing
from spice.runs.groups import Base, Groups


def base(name: str, cluster: Sequence[int], *, clusters: int, images: str = "abcdefghijklmnop") -> Base:
    """Images called a, b, c, ... in these clusters."""
    return Base(
        name,
        clusters=clusters,
        hashes=list(images[: len(cluster)]),
        paths=[f"{image}.png" for image in images[: len(cluster)]],
        cluster=np.array(cluster, np.int32),
        next_cluster=np.zeros(len(cluster), np.int32),
        reliability=np.ones(len(cluster), np.float32),
    )


def carried(old: Base, operations: Sequence[Operation], new: Base) -> Groups:
    edits = [
        Edit(id=number + 1, time="", result=old.name, operation=operation)
        for number, operation in enumerate(operations)
    ]
    return apply_edits(new, Edits(edits=edits), earlier={old.name: old}.get)


OLD = base("old", [0, 0, 0, 1, 1, 1, 2, 2, 2], clusters=3)


def test_with_more_images_all_images_of_a_named_group_keep_its_name() -> None:
    new = base("new", [2, 2, 0, 0, 0, 0, 1, 1, 2, 2, 0], clusters=3)  # other numbers; c and i changed; j and k are new
    found = carried(OLD, [Name(group=0, name="cats"), Name(group=1, name="dogs")], new)
    named = [found.names.get(group) for group in found.group.tolist()]
    assert named == ["cats"] * 3 + ["dogs"] * 3 + [None, None, "cats", "cats", "dogs"]
    assert found.names == {0: "dogs", 2: "cats"}


def test_a_new_group_of_new_images_has_no_name() -> None:
    new = base("new", [0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2], clusters=3)  # a to f in one; j and k in one of their own
    found = carried(OLD, [Name(group=0, name="cats"), Name(group=1, name="dogs"), Name(group=2, name="birds")], new)
    named = [found.names.get(group) for group in found.group.tolist()]
    assert named == ["cats"] * 3 + ["dogs"] * 3 + ["birds"] * 3 + [None, None]


def test_merges_splits_corrections_and_groups_set_aside_live_on_with_more_images() -> None:
    operations: list[Operation] = [
        Merge(groups=[0, 1]),
        Split(group=2, parts=[OLD.images([8])]),
        Move(images=[OLD.image(0)], group=2),
        Reject(images=[OLD.image(1)], group=2),
        SetAside(group=3),
    ]
    new = base("new", [0, 0, 0, 1, 1, 1, 2, 2, 2, 1], clusters=3)
    found = carried(OLD, operations, new)
    groups = found.group.tolist()
    assert len({*groups[1:6], groups[9]}) == 1  # merged, and the new image j joins
    assert groups[0] == groups[6] == groups[7] != groups[8]
    assert found.by_person.tolist() == [True] + [False] * 9
    assert found.rejected == {1: frozenset({groups[6]})}
    assert found.set_aside == {groups[8]}


def test_another_head_for_the_same_images_moves_images_but_no_names_merges_and_corrections() -> None:
    operations: list[Operation] = [
        Name(group=0, name="cats"),
        Merge(groups=[1, 2]),
        Move(images=[OLD.image(3)], group=0),
    ]
    new = base("new", [1, 1, 0, 0, 0, 0, 0, 2, 2], clusters=3)
    found = carried(OLD, operations, new)
    groups = found.group.tolist()
    assert [found.names.get(group) for group in groups] == ["cats", "cats", None, "cats"] + [None] * 5
    assert len({groups[2], *groups[4:]}) == 1


def test_with_another_k_a_name_goes_to_the_group_that_shares_most_images() -> None:
    new = base("new", [3, 3, 0, 1, 1, 1, 2, 2, 2], clusters=4)
    operations: list[Operation] = [
        Name(group=0, name="cats"),
        Name(group=2, name="birds"),
        Move(images=[OLD.image(3)], group=2),
    ]
    found = carried(OLD, operations, new)
    assert found.names == {2: "birds", 3: "cats"}
    assert found.group.tolist() == [3, 3, 0, 2, 1, 1, 2, 2, 2]  # d, which a person moved, stays a bird
    assert found.by_person.tolist() == [False] * 3 + [True] + [False] * 5


def test_a_group_made_of_two_named_ones_gets_neither_name_unless_one_has_more_than_half() -> None:
    names = [Name(group=0, name="cats"), Name(group=1, name="dogs")]
    assert carried(OLD, names, base("new", [0] * 6 + [1] * 3, clusters=2)).names == {}
    assert carried(OLD, names, base("new", [0] * 5 + [1] * 4, clusters=2)).names == {0: "cats"}


def test_edits_on_the_new_result_come_after_what_was_carried_over() -> None:
    new = base("new", [0, 0, 0, 1, 1, 1, 2, 2, 2, 0], clusters=3)
    entries: list[tuple[str, Operation]] = [
        ("old", Name(group=0, name="cats")),
        ("new", Merge(groups=[1, 0])),
        ("old", Name(group=1, name="late")),
    ]
    edits = Edits(
        edits=[Edit(id=at + 1, time="", result=name, operation=made) for at, (name, made) in enumerate(entries)]
    )
    found = apply_edits(new, edits, earlier={"old": OLD}.get)
    assert found.names == {1: "cats"}
    assert found.existing == [1, 2]
    assert apply_edits(OLD, edits, earlier={"new": new}.get).names == {0: "cats", 1: "late"}


def test_names_live_on_when_the_result_that_they_were_given_to_is_removed(tmp_path: Path, labels: Labels) -> None:
    run = make_run(tmp_path / "run", labels).run
    with editing(run) as edits:
        append_locked(run, edits, Name(group=2, name="dogs"), result="gone")
    manifest = read_manifest(run)
    assert open_result(run).groups.names == {}  # nothing is left of that result
    renamed = manifest.model_copy(update={"results": {"gone": manifest.results["made"]}})
    save_edited_groups(run, renamed, "gone")
    assert open_result(run).groups.names == {2: "dogs"}
