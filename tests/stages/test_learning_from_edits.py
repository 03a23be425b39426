"""Learning from corrections: lessons, spreading, what a person decided holds."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from spice.engine.run import Run
from spice.errors import UserError
from spice.runs.apply import apply
from spice.runs.edits import Edit, Edits, Learned, Move, Name, Operation, Pair, Reject, SetAside
from spice.runs.groups import Base
from spice.settings import HeadSettings
from spice.stages.groups.decide import decide
from spice.stages.groups.learn import learn_groups, pair_loss
from spice.stages.groups.lessons import Lessons, before_learning, lessons
from spice.stages.groups.spread import ALPHA, Near, neighbor_graph, spread_labels

NONE_SETTLED = np.zeros(120, np.bool_)


def near(features: np.ndarray, count: int = 5) -> Near:
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -2)
    index = np.argsort(-similarity, axis=1, kind="stable")[:, :count]
    return Near(index, np.take_along_axis(similarity, index, axis=1).astype(np.float32))


def edits_of(*operations: Operation) -> Edits:
    return Edits(edits=[Edit(id=at + 1, time="", result="r", operation=made) for at, made in enumerate(operations)])


@pytest.fixture
def three_blobs() -> np.ndarray:
    """Features of 3 x 40 images around three directions."""
    random = np.random.default_rng(0)
    return (np.repeat(np.eye(3, 8), 40, axis=0) + 0.15 * random.normal(size=(120, 8))).astype(np.float32)


def base_of(cluster: np.ndarray, clusters: int) -> Base:
    rows = [str(row) for row in range(len(cluster))]
    return Base(
        "r",
        clusters=clusters,
        hashes=rows,
        paths=rows,
        cluster=cluster.astype(np.int32),
        next_cluster=np.zeros(len(cluster), np.int32),
        reliability=np.ones(len(cluster), np.float32),
    )


def test_spreading_is_the_fixed_point_of_its_equation() -> None:
    random = np.random.default_rng(1)
    found = near(random.normal(size=(30, 4)))
    labels = np.zeros((30, 2), np.float32)
    labels[0, 0] = labels[1, 0] = labels[2, 1] = 1
    graph = neighbor_graph(*found).toarray()
    given = labels / labels.sum(axis=0)
    exact = np.linalg.solve(np.eye(30) - ALPHA * graph, (1 - ALPHA) * given)
    np.testing.assert_allclose(spread_labels(found, labels), exact / exact.sum(axis=1, keepdims=True), atol=5e-3)


def test_an_image_that_no_label_reaches_has_none() -> None:
    apart = Near(np.array([[1], [0], [3], [2]]), np.ones((4, 1), np.float32))
    labels = np.array([[1, 0], [0, 0], [0, 0], [0, 0]], np.float32)
    assert spread_labels(apart, labels)[:, 0].tolist() == [1, 1, 0, 0]


def test_pairs_cost_minus_the_log_of_their_agreement() -> None:
    first, second = torch.tensor([[0.7, 0.3], [0.5, 0.5]]), torch.tensor([[0.2, 0.8], [0.5, 0.5]])
    together = -(math.log(0.7 * 0.2 + 0.3 * 0.8) + math.log(0.5)) / 2
    apart = -(math.log(1 - 0.38) + math.log(0.5)) / 2
    assert pair_loss(first, second, together=True).item() == pytest.approx(together)
    assert pair_loss(first, second, together=False).item() == pytest.approx(apart)


def test_what_a_person_decided_holds_against_the_head() -> None:
    probs = np.array([[0.9, 0.05, 0.05]] * 6, np.float32)
    probs[5] = [0.6, 0.3, 0.1]
    taught = Lessons(
        numbers=[0, 1, 2],
        taking_part=np.arange(5),
        fixed=np.array([0]),
        fixed_group=np.array([2]),
        typical=np.empty(0, np.int64),
        typical_group=np.empty(0, np.int64),
        rejected=np.array([[1, 0]]),
        same=np.array([[2, 0]]),
        different=np.array([[3, 4]]),
        settled=np.array([0, 4]),
        settled_group=np.array([0, 1]),
    )
    group = decide(probs, taught).tolist()
    assert group[0] == 2  # placed
    assert group[1] == 1  # not in group 0
    assert group[2] == 2  # with the placed one
    assert (group[3], group[4]) == (0, 1)  # the fifth is settled, and another than the fourth
    assert group[5] == -1  # set aside


def test_lessons_are_what_the_edits_say(three_blobs: np.ndarray) -> None:
    base = base_of(np.repeat([0, 1, 2], 40), 3)
    image = base.image
    edits = edits_of(
        Name(group=0, name="cats"),
        Move(images=[image(3)], group=1),
        Reject(images=[image(50)], group=1),
        Pair(kind="same", first=image(1), second=image(2)),
        Pair(kind="different", first=image(1), second=image(100)),
        SetAside(group=2),
    )
    taught = lessons(base, apply(base, edits), edits, three_blobs, NONE_SETTLED)
    assert taught.numbers == [0, 1]
    assert (taught.fixed.tolist(), taught.fixed_group.tolist()) == ([3], [1])
    assert len(taught.typical) == 16  # 8 of either group
    assert 3 not in taught.typical
    assert set(taught.taking_part.tolist()) == set(range(80))
    assert taught.rejected.tolist() == [[50, 1]]
    settled = lessons(base, apply(base, edits), edits, three_blobs, ~NONE_SETTLED)
    assert settled.settled.tolist() == list(range(80))
    assert settled.settled_group[[0, 3, 79]].tolist() == [0, 1, 1]
    assert (taught.same.tolist(), taught.different.tolist()) == ([[1, 2]], [[1, 100]])


def test_without_edits_there_is_nothing_to_learn(three_blobs: np.ndarray) -> None:
    base = base_of(np.repeat([0, 1, 2], 40), 3)
    with pytest.raises(UserError, match="nothing to learn from yet"):
        lessons(base, apply(base, Edits()), Edits(), three_blobs, NONE_SETTLED)


def test_a_few_corrections_teach_what_the_clusters_had_wrong(three_blobs: np.ndarray) -> None:
    truth = np.repeat([0, 1, 2], 40)
    mixed = truth.copy()
    mixed[40:70] = 0  # most of the second blob is in the first cluster
    base = base_of(mixed, 3)
    edits = edits_of(*(Move(images=[base.image(row)], group=1) for row in (41, 50, 60)))
    taught = lessons(base, apply(base, edits), edits, three_blobs, NONE_SETTLED)
    settings = HeadSettings(clusters=3, components=8)
    found = learn_groups(three_blobs, near(three_blobs, 15), taught, settings, Run())
    assert (found.group == truth).mean() > 0.95 > (mixed == truth).mean()
    again = learn_groups(three_blobs, near(three_blobs, 15), taught, settings, Run())
    np.testing.assert_array_equal(found.group, again.group)  # the same edits teach the same


def test_learning_again_starts_from_the_answer_before_learning(tmp_path: Path) -> None:
    base = base_of(np.array([0, 1]), 2)
    edits = edits_of(Name(group=0, name="x"), Learned(model="m", outputs=[0, 1], moved={1: [base.image(0)]}))
    assert apply(base, edits).group.tolist() == [1, 1]
    assert apply(base, before_learning(edits)).group.tolist() == [0, 1]
