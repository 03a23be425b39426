"""The rivals: each finds what is plain to see, the seed alone decides, and the objectives are the published ones."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from spice.benchmark.rivals import RIVALS, embedded, fit, nnm, scan, temi, turtle
from spice.benchmark.rivals.nnm import nearest_in_batch, nnm_loss
from spice.benchmark.rivals.scan import scan_loss
from spice.benchmark.rivals.temi import temi_loss
from spice.benchmark.tables.catalog import TABLES
from spice.benchmark.tables.run import Selection
from spice.errors import UserError
from spice.evaluate import accuracy, score

# UMAP compiles itself for half a minute: two tests of their own have to do for it.
QUICK = [name for name in RIVALS if name not in embedded.NEED_PACKAGES]
needs_packages = pytest.mark.skipif(not embedded.installed(), reason="the extra `bench` is not installed")


def blobs(images: int = 240, clusters: int = 4, *, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Directions around well separated centers, of very different lengths: only the direction tells."""
    random = np.random.default_rng(seed)
    truth = np.arange(images) % clusters
    points = np.eye(12)[truth] + 0.12 * random.normal(size=(images, 12))
    return (points * random.uniform(0.1, 50, size=(images, 1))).astype(np.float32), truth


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the steps, of smaller batches, is enough for what is easy to see."""
    for module in (scan, nnm, temi):
        monkeypatch.setattr(module, "EPOCHS", 1)
        monkeypatch.setattr(module, "LEAST_STEPS", 1000)
        monkeypatch.setattr(module, "BATCH", 256)
    monkeypatch.setattr(turtle, "STEPS", 300)


@pytest.fixture(scope="module")
def digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    data, target = load_digits(return_X_y=True)
    return data.astype(np.float32), target


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", QUICK)
def test_separated_groups_are_found_whatever_the_length_of_their_features(name: str) -> None:
    features, truth = blobs()
    labels = fit(name, features, 4, seed=0)
    assert accuracy(labels, truth) >= 0.99
    assert labels.dtype == np.int64
    assert set(labels) == {0, 1, 2, 3}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", QUICK)
def test_digits_are_grouped_much_better_than_by_chance(
    name: str, digits: tuple[NDArray[np.float32], NDArray[np.int64]]
) -> None:
    labels = fit(name, digits[0], 10, seed=0)
    assert accuracy(labels, digits[1]) > 0.6
    assert score(labels, digits[1]).nmi > 0.6


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("name", QUICK)
def test_the_seed_alone_decides(name: str) -> None:
    features = np.random.default_rng(0).normal(size=(150, 8))
    torch.manual_seed(1)
    first = fit(name, features, 5, seed=3)
    torch.manual_seed(2)
    assert np.array_equal(fit(name, features, 5, seed=3), first)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("name", QUICK)
def test_duplicates_and_few_images_are_no_obstacle(name: str) -> None:
    features = np.repeat(np.eye(6, dtype=np.float32)[:3], 4, axis=0)
    labels = fit(name, features, 3, seed=0)
    assert labels.shape == (12,)
    assert 0 <= labels.min() <= labels.max() < 3


@pytest.mark.slow
@needs_packages
def test_umap_and_leiden_find_separated_groups_and_the_seed_alone_decides() -> None:
    features, truth = blobs()
    for name in embedded.NEED_PACKAGES:
        labels = fit(name, features, 4, seed=0)
        assert accuracy(labels, truth) >= 0.99, name
        assert labels.dtype == np.int64
        assert set(labels) == {0, 1, 2, 3}
    assert np.array_equal(fit("UMAP + k-means", features, 6, seed=3), fit("UMAP + k-means", features, 6, seed=3))


@pytest.mark.slow
@needs_packages
def test_umap_and_leiden_take_duplicates_and_few_images() -> None:
    features = np.repeat(np.eye(6, dtype=np.float32)[:3], 4, axis=0)
    for name in embedded.NEED_PACKAGES:
        labels = fit(name, features, 3, seed=0)
        assert labels.shape == (12,)
        assert 0 <= labels.min() <= labels.max() < 3


def test_rivals_without_their_packages_are_left_out_and_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(UserError, match=r"needs the package umap; install it with: pip install umap-learn"):
        fit("UMAP + k-means", blobs()[0], 4, seed=0)
    wanted = list(Selection(TABLES["frozen"], "cpu", [0]).cells())
    assert not {f"features + {name}" for name in embedded.NEED_PACKAGES} & {cell.method for cell in wanted}
    assert "pip install" in wanted[0].choice.left_out["features + Leiden"]


def test_turtle_is_its_two_problems_written_out() -> None:
    random = torch.Generator().manual_seed(0)
    inputs, logits = torch.randn(30, 5, generator=random), torch.randn(30, 3, generator=random).requires_grad_()
    probs = logits.detach().softmax(dim=1)
    weights = torch.zeros(5, 3, requires_grad=True)
    for _ in range(turtle.INNER_STEPS):
        loss = torch.nn.functional.cross_entropy(inputs @ weights, probs)
        (slope,) = torch.autograd.grad(loss, weights)
        weights = (weights - turtle.INNER_RATE / 5 * slope).detach().requires_grad_()
    torch.testing.assert_close(turtle.fit_classifier(inputs, probs), weights.detach())
    mean = probs.mean(dim=0)
    expected = torch.nn.functional.cross_entropy(inputs @ weights, probs) + 10 * (mean * mean.log()).sum()
    torch.testing.assert_close(turtle.turtle_loss(inputs, logits, entropy_weight=10.0).detach(), expected.detach())


def test_spherical_k_means_fills_empty_clusters() -> None:
    features, _ = blobs(clusters=3)
    assert len(set(fit("spherical k-means", features, 20, seed=0))) == 20


def test_what_cannot_be_clustered_is_refused_in_words() -> None:
    features, _ = blobs(10)
    with pytest.raises(ValueError, match="unknown rival 'dbscan'; choose one of k-means, spherical"):
        fit("dbscan", features, 2, seed=0)
    with pytest.raises(ValueError, match="cannot make 11 clusters from 10 images"):
        fit("k-means", features, 11, seed=0)
    with pytest.raises(ValueError, match=r"features must have shape \(images, width\), got \(10,\)"):
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


def test_the_objective_of_nnm_is_the_published_one_at_both_levels() -> None:
    ours, local, overall = (probabilities(2, 3, 5, seed=seed) for seed in (0, 1, 2))
    found = nnm_loss(ours.log(), local.log(), overall.log(), entropy_weight=5.0)
    for head in range(2):
        mean = ours[head].mean(dim=1)
        expected = 5.0 * sum(float(p * p.log()) for p in mean)
        for theirs in (local, overall):
            expected -= sum(float((ours[head, :, i] @ theirs[head, :, i]).log()) for i in range(5)) / 5
            for k in range(3):
                row = [torch.cosine_similarity(ours[head, k], theirs[head, m], dim=0) for m in range(3)]
                expected -= float(torch.stack(row).log_softmax(dim=0)[k]) / 3
        assert found[head].item() == pytest.approx(expected)


def test_the_nearest_in_a_batch_is_another_image_whatever_its_length() -> None:
    images = torch.tensor([[1.0, 0.0], [9.0, 1.0], [0.0, 1.0], [-0.1, 2.0]])
    assert nearest_in_batch(images).tolist() == [1, 0, 3, 2]


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
