"""Learning from corrections: what they are, label spreading, group probabilities, and decisions that hold."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from spice.engine.run import Run
from spice.errors import UserError
from spice.runs.apply_edits import apply_edits
from spice.runs.edits import Edit, Edits, Learned, Move, Name, Operation, Pair, Reject, SetAside, Split
from spice.runs.groups import Base
from spice.settings import HeadSettings
from spice.stages.groups.assign import assign_groups
from spice.stages.groups.corrections import Corrections, corrections_from_edits, edits_before_learning
from spice.stages.groups.label_spreading import ALPHA, NeighborGraph, similarity_graph, spread_labels
from spice.stages.groups.learn import learn_groups, pair_loss
from spice.stages.groups.probabilities import PRIOR, ROUNDS, group_probs, with_former_groups


def neighbor_graph(features: np.ndarray, count: int = 5) -> NeighborGraph:
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -2)
    index = np.argsort(-similarity, axis=1, kind="stable")[:, :count]
    return NeighborGraph(index, np.take_along_axis(similarity, index, axis=1).astype(np.float32))


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


def test_spread_labels_are_the_fixed_point_of_the_equation() -> None:
    random = np.random.default_rng(1)
    neighbors = neighbor_graph(random.normal(size=(30, 4)))
    labels = np.zeros((30, 2), np.float32)
    labels[0, 0] = labels[1, 0] = labels[2, 1] = 1
    graph = similarity_graph(*neighbors).toarray()
    given = labels / labels.sum(axis=0)
    exact = np.linalg.solve(np.eye(30) - ALPHA * graph, (1 - ALPHA) * given)
    np.testing.assert_allclose(spread_labels(neighbors, labels), exact / exact.sum(axis=1, keepdims=True), atol=5e-3)


def test_an_image_that_no_label_reaches_gets_no_label() -> None:
    neighbors = NeighborGraph(np.array([[1], [0], [3], [2]]), np.ones((4, 1), np.float32))
    labels = np.array([[1, 0], [0, 0], [0, 0], [0, 0]], np.float32)
    assert spread_labels(neighbors, labels)[:, 0].tolist() == [1, 1, 0, 0]


def test_the_vote_of_former_groups_is_dawid_and_skenes_em() -> None:
    random = np.random.default_rng(2)
    evidence = np.log(random.dirichlet(np.ones(3), size=20)).astype(np.float32)
    part = random.integers(0, 4, size=20) * 5  # any four numbers
    part[7] = -1
    probs = np.exp(evidence.astype(np.float64))
    for _ in range(ROUNDS):
        vote = np.zeros((16, 3))
        for one in (0, 5, 10, 15):
            for group in range(3):
                vote[one, group] = PRIOR / 4 + sum(probs[row, group] for row in range(20) if part[row] == one)
        vote /= vote.sum(axis=0)
        for row in range(20):
            if part[row] >= 0:
                weighted = np.exp(evidence[row]) * vote[part[row]] ** 0.5
                probs[row] = weighted / weighted.sum()
    np.testing.assert_allclose(with_former_groups(evidence, part, trust=0.5), probs, rtol=1e-4)


@pytest.mark.parametrize(("agreeing", "expected"), [(0.99, 0), (0.5, 1)])
def test_former_groups_count_as_much_as_the_evidence_agrees_with_them(agreeing: float, expected: int) -> None:
    part = np.repeat([0, 1], 200)
    evidence = np.zeros((400, 2), np.float32)
    supported = np.where(np.arange(400) % 100 < 100 * agreeing, part, 1 - part)
    evidence[np.arange(400), supported] = 2.0
    evidence[0] = [0.0, 1.0]  # an image of the first part that looks a little more like the second group
    assert with_former_groups(evidence, part, trust=1.0)[0].argmax() == expected


def test_group_probabilities_respect_decisions_of_a_person(three_blobs: np.ndarray) -> None:
    base = base_of(np.repeat([0, 1, 2], 40), 3)
    edits = edits_of(Move(images=[base.image(3)], group=1), Reject(images=[base.image(50)], group=1))
    corrections = corrections_from_edits(base, apply_edits(base, edits), edits, three_blobs)
    probs = group_probs(three_blobs, neighbor_graph(three_blobs, 15), corrections)
    assert probs[3].tolist() == [0, 1, 0]
    assert probs[50, 1] == 0
    np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-5)


def test_the_parts_of_a_split_group_have_different_numbers(three_blobs: np.ndarray) -> None:
    base = base_of(np.repeat([0, 1], 60), 2)
    edits = edits_of(Split(group=0, parts=[base.images(range(30, 60))]))
    corrections = corrections_from_edits(base, apply_edits(base, edits), edits, three_blobs)
    assert corrections.part[0] == corrections.part[29] != corrections.part[30] == corrections.part[59]


def test_the_pair_loss_is_minus_the_log_of_the_agreement() -> None:
    first, second = torch.tensor([[0.7, 0.3], [0.5, 0.5]]), torch.tensor([[0.2, 0.8], [0.5, 0.5]])
    together = -(math.log(0.7 * 0.2 + 0.3 * 0.8) + math.log(0.5)) / 2
    apart = -(math.log(1 - 0.38) + math.log(0.5)) / 2
    assert pair_loss(first, second, together=True).item() == pytest.approx(together)
    assert pair_loss(first, second, together=False).item() == pytest.approx(apart)


def test_what_a_person_decided_holds_against_the_head() -> None:
    probs = np.array([[0.9, 0.05, 0.05, 0]] * 6, np.float32)
    probs[4] = [0.6, 0.3, 0.1, 0]
    corrections = Corrections(
        numbers=[0, 1, 2, 3],
        aside=np.array([-1, -1, -1, -1, -1, 3]),
        fixed=np.array([0]),
        fixed_group=np.array([2]),
        typical=np.empty(0, np.int64),
        typical_group=np.empty(0, np.int64),
        rejected=np.array([[1, 0]]),
        same=np.array([[2, 0]]),
        different=np.array([[3, 4]]),
        part=np.zeros(6, np.int64),
    )
    group = assign_groups(probs, corrections).tolist()
    assert group[0] == 2  # placed
    assert group[1] == 1  # not in group 0
    assert group[2] == 2  # with the placed one
    assert (group[3], group[4]) == (0, 1)  # the less certain one moves
    assert group[5] == -1  # set aside


def test_corrections_are_read_from_the_edits(three_blobs: np.ndarray) -> None:
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
    corrections = corrections_from_edits(base, apply_edits(base, edits), edits, three_blobs)
    assert corrections.numbers == [0, 1, 2]
    assert (corrections.fixed.tolist(), corrections.fixed_group.tolist()) == ([3], [1])
    assert len(corrections.typical) == 24  # 8 of each group
    assert 3 not in corrections.typical
    assert corrections.aside.tolist() == [-1] * 80 + [2] * 40
    assert corrections.rejected.tolist() == [[50, 1]]
    assert corrections.part[3] == -1  # placed by a person
    assert corrections.part[0] == corrections.part[39] != corrections.part[40]
    assert (corrections.same.tolist(), corrections.different.tolist()) == ([[1, 2]], [[1, 100]])


def test_without_edits_there_is_nothing_to_learn(three_blobs: np.ndarray) -> None:
    base = base_of(np.repeat([0, 1, 2], 40), 3)
    with pytest.raises(UserError, match="nothing to learn from yet"):
        corrections_from_edits(base, apply_edits(base, Edits()), Edits(), three_blobs)


def test_a_few_corrections_mend_a_wrong_cluster(three_blobs: np.ndarray) -> None:
    truth = np.repeat([0, 1, 2], 40)
    mixed = truth.copy()
    mixed[40:70] = 0  # most of the second blob is in the first cluster
    base = base_of(mixed, 3)
    edits = edits_of(*(Move(images=[base.image(row)], group=1) for row in (41, 50, 60)))
    corrections = corrections_from_edits(base, apply_edits(base, edits), edits, three_blobs)
    settings = HeadSettings(clusters=3, components=8)
    found = learn_groups(three_blobs, neighbor_graph(three_blobs, 15), corrections, settings, Run())
    assert (found.group == truth).mean() > 0.95 > (mixed == truth).mean()
    again = learn_groups(three_blobs, neighbor_graph(three_blobs, 15), corrections, settings, Run())
    np.testing.assert_array_equal(found.group, again.group)  # the same edits give the same result


def test_new_images_like_those_set_aside_are_recognized_and_no_image_joins_or_leaves_them(
    three_blobs: np.ndarray,
) -> None:
    clusters = np.repeat([0, 1, 2], 40)
    clusters[80:83] = 0  # these look like the group that is set aside, but are not in it
    base = base_of(clusters, 3)
    edits = edits_of(Name(group=0, name="cats"), SetAside(group=2))
    corrections = corrections_from_edits(base, apply_edits(base, edits), edits, three_blobs)
    found = learn_groups(
        three_blobs, neighbor_graph(three_blobs, 15), corrections, HeadSettings(clusters=3, components=8), Run()
    )
    assert (found.group[83:] == -1).all()
    assert set(found.group[:83].tolist()) == {0, 1}
    with torch.no_grad():
        output = found.head(torch.from_numpy(three_blobs)).argmax(dim=1).numpy()
    assert (output[83:] == 2).mean() > 0.9
    assert (output[:80] != 2).all()


def test_learning_again_starts_from_the_answer_before_learning(tmp_path: Path) -> None:
    base = base_of(np.array([0, 1]), 2)
    edits = edits_of(Name(group=0, name="x"), Learned(model="m", outputs=[0, 1], moved={1: [base.image(0)]}))
    assert apply_edits(base, edits).group.tolist() == [1, 1]
    assert apply_edits(base, edits_before_learning(edits)).group.tolist() == [0, 1]
