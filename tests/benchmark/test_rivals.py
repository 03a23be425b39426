"""The rivals: each finds what is plain to see, the seed alone decides, and the objectives are the published ones."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from spice.benchmark.rivals import RIVALS, fit, scan, temi
from spice.benchmark.rivals.scan import scan_loss
from spice.benchmark.rivals.temi import temi_loss
from spice.evaluate import accuracy, score


def blobs(images: int = 240, clusters: int = 4, *, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Directions around well separated centers, of very different lengths: only the direction tells."""
    random = np.random.default_rng(seed)
    truth = np.arange(images) % clusters
    points = np.eye(12)[truth] + 0.12 * random.normal(size=(images, 12))
    return (points * random.uniform(0.1, 50, size=(images, 1))).astype(np.float32), truth


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the steps, of smaller batches, is enough for what is easy to see."""
    for module in (scan, temi):
        monkeypatch.setattr(module, "EPOCHS", 1)
        monkeypatch.setattr(module, "LEAST_STEPS", 1000)
        monkeypatch.setattr(module, "BATCH", 256)


@pytest.fixture(scope="module")
def digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    data, target = load_digits(return_X_y=True)
    return data.astype(np.float32), target


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", RIVALS)
def test_separated_groups_are_found_whatever_the_length_of_their_features(name: str) -> None:
    features, truth = blobs()
    labels = fit(name, features, 4, seed=0)
    assert accuracy(labels, truth) >= 0.99
    assert labels.dtype == np.int64
    assert set(labels) == {0, 1, 2, 3}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", RIVALS)
def test_digits_are_grouped_much_better_than_by_chance(
    name: str, digits: tuple[NDArray[np.float32], NDArray[np.int64]]
) -> None:
    labels = fit(name, digits[0], 10, seed=0)
    assert accuracy(labels, digits[1]) > 0.6
    assert score(labels, digits[1]).nmi > 0.6


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("name", RIVALS)
def test_the_seed_alone_decides(name: str) -> None:
    features = np.random.default_rng(0).normal(size=(150, 8))
    torch.manual_seed(1)
    first = fit(name, features, 5, seed=3)
    torch.manual_seed(2)
    assert np.array_equal(fit(name, features, 5, seed=3), first)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("name", RIVALS)
def test_duplicates_and_few_images_are_no_obstacle(name: str) -> None:
    features = np.repeat(np.eye(6, dtype=np.float32)[:3], 4, axis=0)
    labels = fit(name, features, 3, seed=0)
    assert labels.shape == (12,)
    assert 0 <= labels.min() <= labels.max() < 3


def test_spherical_k_means_fills_empty_clusters() -> None:
    features, _ = blobs(clusters=3)
    assert len(set(fit("spherical k-means", features, 20, seed=0))) == 20


def test_what_cannot_be_clustered_is_refused_in_words() -> None:
    features, _ = blobs(10)
    with pytest.raises(ValueError, match="there is no rival called 'dbscan': choose one of k-means, spherical"):
        fit("dbscan", features, 2, seed=0)
    with pytest.raises(ValueError, match="11 clusters cannot be made of 10 images"):
        fit("k-means", features, 11, seed=0)
    with pytest.raises(ValueError, match=r"features must be \(images, width\), found shape \(10,\)"):
        fit("k-means", features[:, 0], 2, seed=0)
    features[3] = 0  # an image without a direction is no reason to fail
    assert len(fit("k-means", features, 2, seed=0)) == 10


def probabilities(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double().softmax(dim=-2)


def test_the_objective_of_scan_is_the_published_one() -> None:
    ours, theirs = probabilities(2, 3, 5, seed=0), probabilities(2, 3, 5, seed=1)
    found = scan_loss(ours.log(), theirs.log(), entropy_weight=5.0)
    for head in range(2):
        agreement = sum(float((ours[head, :, i] @ theirs[head, :, i]).log()) for i in range(5)) / 5
        mean = ours[head].mean(dim=1)
        entropy = -sum(float(p * p.log()) for p in mean)
        assert found[head].item() == pytest.approx(-agreement - 5.0 * entropy)


def test_the_objective_of_temi_is_the_published_one() -> None:
    student = [probabilities(2, 3, 5, seed=seed) for seed in (0, 1)]
    teacher = [probabilities(2, 3, 5, seed=seed) for seed in (2, 3)]
    mean = probabilities(2, 3, 1, seed=4)
    logs = [[side.log() for side in sides] for sides in (student, teacher)]
    found = temi_loss(logs[0], logs[1], mean, beta=0.6)
    for head in range(2):
        expected = 0.0
        for i in range(5):
            weight = sum(float(teacher[0][h, :, i] @ teacher[1][h, :, i]) for h in range(2)) / 2
            one = float((((student[0][head, :, i] * teacher[1][head, :, i]) ** 0.6) / mean[head, :, 0]).sum().log())
            other = float((((student[1][head, :, i] * teacher[0][head, :, i]) ** 0.6) / mean[head, :, 0]).sum().log())
            expected -= weight * (one + other) / 2 / 5
        assert found[head].item() == pytest.approx(expected)


@pytest.mark.usefixtures("brief")
def test_the_head_of_scan_says_of_features_what_its_labels_say() -> None:
    features, _ = blobs()
    head = scan.train(features, 4, seed=3)
    found = head(torch.from_numpy(features)).argmax(dim=1).numpy()
    assert (found == scan.fit(features, 4, seed=3)).mean() == 1.0
