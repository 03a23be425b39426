"""A check by hand: questions, answers kept as edits, and what they say."""

from pathlib import Path

import numpy as np
import pytest
from made_run import add_steps, labels_result, made_labels, make_run

from spice.errors import UserError
from spice.runs import Result
from spice.runs.artifacts import NEIGHBORS
from spice.runs.checks import Checks, record, undo_answer
from spice.runs.editor import Editor
from spice.runs.edits import Merge, Name, SetAside, read_edits

N, K = 120, 3


@pytest.fixture
def run(tmp_path: Path) -> Result:
    """Three groups of forty; neighbors of an image are the next two, so two images of each group have one outside."""
    cluster = np.repeat(np.arange(K, dtype=np.int32), N // K)
    ratio = np.where(np.arange(N) % 40 < 38, 1.0, 0.5).astype(np.float32)
    labels = made_labels(cluster, ratio, chance=ratio * 0.9, path=[f"{row:03d}.jpg" for row in range(N)])
    made = make_run(tmp_path / "run", labels, {"labels": labels_result(K, neighbors=2)})
    np.save(made / NEIGHBORS, (np.arange(N)[:, None] + [1, 2]) % N)
    return add_steps(made.run, {})


def answer(run: Result, wrong: set[int], count: int) -> None:
    for question in Checks(run).questions(count):
        record(run.run, question.row, "no" if question.group in wrong else "yes")


def test_questions_show_the_center_images_of_the_group(run: Result) -> None:
    for question in Checks(run).questions(30):
        assert question.group == question.row // 40
        expected = [row for row in range(question.group * 40, question.group * 40 + 8) if row != question.row]
        assert question.centers == expected
        assert (question.path, question.name) == (f"{question.row:03d}.jpg", f"group {question.group}")


def test_a_check_resumes_where_it_was_left(run: Result) -> None:
    asked = Checks(run).questions(10)
    record(run.run, asked[0].row, "yes")
    record(run.run, asked[1].row, "unsure")
    assert [question.row for question in Checks(run).questions(10)] == [question.row for question in asked[2:]]
    assert [question.row for question in Checks(run).questions(20)][:8] == [question.row for question in asked[2:]]


def test_the_last_answer_can_be_taken_back_and_other_edits_cannot(run: Result) -> None:
    first, second, *_ = Checks(run).questions(5)
    Editor(run.run).do(Name(group=1, name="dogs"))
    assert undo_answer(run.run) is None
    record(run.run, first.row, "yes")
    record(run.run, second.row, "no")
    taken = undo_answer(run.run)
    assert taken is not None
    assert (taken.image.path, taken.answer) == (second.path, "no")
    assert Checks(run).answered == {first.row: "yes"}
    assert undo_answer(run.run) is not None
    assert undo_answer(run.run) is None
    assert Editor(run.run).groups.names == {1: "dogs"}


def test_answers_say_how_good_all_images_and_each_group_are(run: Result) -> None:
    answer(run, wrong={2}, count=60)
    found = Checks(run).summary()
    assert found.answers == 60
    assert found.accuracy is not None
    assert found.accuracy.low < 2 / 3 < found.accuracy.high
    assert (found.groups[0].value, found.groups[2].value) == (1.0, 0.0)
    assert found.keep.threshold is None  # the wrong group has the same chances as the others


def test_unsure_answers_are_counted_and_left_out(run: Result) -> None:
    for number, question in enumerate(Checks(run).questions(10)):
        record(run.run, question.row, "unsure" if number < 3 else "yes")
    found = Checks(run).summary()
    assert (found.yes, found.no, found.unsure, found.answers) == (7, 0, 3, 7)


def test_a_changed_answer_replaces_the_one_before(run: Result) -> None:
    row = Checks(run).questions(1)[0].row
    record(run.run, row, "yes")
    record(run.run, row, "no")
    assert Checks(run).answered == {row: "no"}
    assert len(read_edits(run.run).edits) == 2


def test_right_answers_keep_images_without_those_found_wrong(run: Result) -> None:
    answer(run, wrong=set(), count=100)
    checks = Checks(run)
    found = checks.summary()
    assert found.keep.images == int(checks.kept(found.keep).sum()) == N
    wrong = int(checks.rows[0])
    record(run.run, wrong, "no")
    checks = Checks(run)
    found = checks.summary()
    assert found.keep.wrong == 1
    assert not checks.kept(found.keep)[wrong]
    assert found.keep.images == int(checks.kept(found.keep).sum()) == N - 1


def test_chances_follow_the_answers(run: Result) -> None:
    answer(run, wrong={0, 1, 2}, count=40)
    checks = Checks(run)
    assert checks.chances.mean() < 0.05 < checks.prior_chance.mean()


def test_after_a_merge_chances_count_neighbors_of_the_merged_group_and_old_answers_of_moved_images_are_dropped(
    run: Result,
) -> None:
    rows = {question.group: question.row for question in Checks(run).questions(20)}
    for row in rows.values():
        record(run.run, row, "yes")
    Editor(run.run).do(Merge(groups=[0, 1]))
    checks = Checks(run)
    assert sorted(checks.answered) == sorted([rows[0], rows[2]])  # the other image was asked as one of group 1
    assert (
        checks.prior_chance[39] == checks.prior_chance[0] > checks.prior_chance[79]
    )  # its neighbors are in the merged group now


def test_images_of_a_group_that_is_set_aside_are_not_asked_about(run: Result) -> None:
    Editor(run.run).do(SetAside(group=1))
    assert {question.group for question in Checks(run).questions(50)} == {0, 2}
    answer(run, wrong=set(), count=50)
    checks = Checks(run)
    found = checks.summary()
    assert found.keep.images == int(checks.kept(found.keep).sum()) == 80


def test_an_answer_must_be_one_of_three(run: Result) -> None:
    with pytest.raises(UserError, match="yes, no or unsure, not 'maybe'"):
        record(run.run, 0, "maybe")  # type: ignore[arg-type]


def test_after_an_edit_the_labels_are_not_read_again(run: Result) -> None:
    labels, before = run.labels, Checks(run)
    assert before.labels is labels
    Editor(run.run).do(Merge(groups=[0, 1]))
    after = Checks(run)
    assert after.labels is labels
    assert set(before.group.tolist()) == {0, 1, 2}
    assert set(after.group.tolist()) == {0, 2}
