"""The number of neighbors, and which images are reliable (paper III-C)."""

import warnings

import pytest
import torch

from spice.presets import authors_reliability
from spice.settings import ReliabilitySettings
from spice.stages.reliability import NoReliableImagesWarning, label_reliability, labels_to_learn, reliability_neighbors

PAPER = ReliabilitySettings()


@pytest.mark.parametrize(
    ("images", "clusters", "count"),
    [
        (60_000, 10, 100),  # the paper's N_s
        (2_000, 10, 100),
        (1_990, 10, 99),  # half the expected cluster
        (400, 20, 10),
        (60, 10, 5),  # at least five
        (4, 2, 3),  # an image is not its own neighbor
    ],
)
def test_the_number_of_neighbors_follows_the_expected_cluster_size(images: int, clusters: int, count: int) -> None:
    assert reliability_neighbors(images, clusters, PAPER) == count


def test_the_number_of_neighbors_can_be_set() -> None:
    assert reliability_neighbors(100, 2, ReliabilitySettings(neighbors=7)) == 7
    assert reliability_neighbors(6, 2, ReliabilitySettings(neighbors=7)) == 5


def groups(sizes: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels of well separated groups on a line, and all other images of each image, nearest first."""
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    place = torch.arange(len(labels)) + 1000 * labels
    distance = (place[:, None] - place[None, :]).abs()
    return labels, distance.argsort(dim=1, stable=True)[:, 1:]


def test_all_images_of_small_clean_clusters_are_reliable() -> None:
    # With 100 neighbors, as in the authors' code, none of these could be reliable.
    labels, neighbors = groups([20] * 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = label_reliability(labels, neighbors, PAPER, clusters=20)
    assert found.reliable.all()
    assert (found.ratio == 1).all()


def test_reliable_is_strictly_above_the_threshold() -> None:
    labels = torch.tensor([0, 0, 0, 0, 1])
    neighbors = torch.tensor([[1, 2, 3, 4]]).repeat(5, 1)
    settings = ReliabilitySettings(neighbors=4, threshold=0.75)
    with pytest.warns(NoReliableImagesWarning):
        found = label_reliability(labels, neighbors, settings, clusters=2)
    assert found.ratio[0] == 0.75
    assert not found.reliable[0]


def test_a_warning_names_clusters_without_a_reliable_image_and_the_others_are_kept() -> None:
    labels, neighbors = groups([40, 4, 40])
    with pytest.warns(NoReliableImagesWarning, match=r"no image is reliable in group 1 \(4 images\)"):
        found = label_reliability(labels, neighbors, PAPER, clusters=3)
    assert found.reliable.sum() == 80


def test_an_empty_cluster_causes_no_warning() -> None:
    labels, neighbors = groups([30, 30])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        label_reliability(labels, neighbors, PAPER, clusters=3)


def test_twenty_clusters_on_ten_groups_leave_reliable_images() -> None:
    # Ten of the clusters are two images at the end of a true group. They are never reliable, but the others are kept.
    labels, neighbors = groups([100] * 10)
    minority = torch.arange(len(labels)) % 100 < 2
    split = torch.where(minority, labels + 10, labels)
    with pytest.warns(NoReliableImagesWarning, match=r"group 10 \(2 images\), 11 .*, 19 \(2 images\); look at these"):
        found = label_reliability(split, neighbors, PAPER, clusters=20)
    assert found.reliable[~minority].float().mean() > 0.8


def test_too_few_known_neighbors_are_refused() -> None:
    labels, neighbors = groups([50, 50])
    with pytest.raises(ValueError, match="need 25 neighbors of each image, got 3"):
        label_reliability(labels, neighbors[:, :3], PAPER, clusters=2)


def one_hot(labels: torch.Tensor, clusters: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(labels, clusters).float()


def test_the_labels_to_learn_follow_the_rule_of_the_paper_or_of_the_authors() -> None:
    labels, neighbors = groups([150, 110, 130])
    probs = one_hot(labels, 3)
    probs[0] = torch.tensor([0.98, 0.01, 0.01])
    paper = labels_to_learn(probs, neighbors, PAPER, seed=0)
    assert paper.image.tolist() == list(range(390))
    assert torch.equal(paper.cluster, labels)
    authors = labels_to_learn(probs, neighbors, authors_reliability("stl10"), seed=0)
    assert authors.cluster.bincount().tolist() == [110, 110, 110], "cut to the smallest"
    assert 0 not in authors.image.tolist(), "not confident enough"
    again = labels_to_learn(probs, neighbors, authors_reliability("stl10"), seed=0)
    assert torch.equal(authors.image, again.image)
    assert not torch.equal(labels_to_learn(probs, neighbors, authors_reliability("stl10"), seed=1).image, again.image)


def test_with_the_rule_all_every_predicted_label_is_learned() -> None:
    labels, neighbors = groups([40, 4, 40])
    everything = ReliabilitySettings(rule="all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learned = labels_to_learn(one_hot(labels, 3), neighbors, everything, seed=0)
    assert learned.image.tolist() == list(range(84))
    assert torch.equal(learned.cluster, labels)


def test_twenty_clusters_on_ten_groups_empty_the_authors_set_and_not_the_papers() -> None:
    """K = 20 for ten classes: some clusters are a few images at the edge of a class, which cannot be reliable."""
    labels, neighbors = groups([100] * 10)
    split = torch.where(torch.arange(len(labels)) % 100 < 2, labels + 10, labels)
    probs = one_hot(split, 20)
    with pytest.warns(NoReliableImagesWarning, match="group 10"):
        assert len(labels_to_learn(probs, neighbors, authors_reliability("stl10"), seed=0).image) == 0
    with pytest.warns(NoReliableImagesWarning, match="group 10"):
        kept = labels_to_learn(probs, neighbors, PAPER, seed=0)
    assert set(kept.cluster.tolist()) == set(range(10))
    assert len(kept.image) > 800


def test_the_threshold_of_the_authors_is_higher_on_cifar() -> None:
    assert authors_reliability("cifar10").threshold == authors_reliability("cifar100-20").threshold == 0.99
    assert authors_reliability("imagenet-dog").threshold == 0.90
