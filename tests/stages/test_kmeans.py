"""k-means, the baseline of every result."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from spice.stages import kmeans as module
from spice.stages.kmeans import kmeans


def blobs(images: int, clusters: int) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float32]], list[int]]:
    random = np.random.default_rng(0)
    truth = np.arange(images) % clusters
    centers = np.eye(clusters, 16)
    noise = 0.05 * random.standard_normal((images, 16))
    # Lengths are random; the group decides the direction.
    lengths = random.uniform(0.1, 10.0, (images, 1))
    return ((centers[truth] + noise) * lengths).astype(np.float32), truth.tolist()


def test_groups_of_directions_are_found_regardless_of_length() -> None:
    features, truth = blobs(300, 4)
    found = kmeans(features, 4, seed=0)
    assert found.dtype == np.int32
    assert adjusted_rand_score(truth, found) == 1.0


def test_the_same_seed_gives_the_same_labels() -> None:
    features, _ = blobs(200, 5)
    np.testing.assert_array_equal(kmeans(features, 5, seed=3), kmeans(features, 5, seed=3))


def test_centers_are_fitted_to_a_sample_and_all_images_are_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    features, truth = blobs(1000, 3)
    monkeypatch.setattr(module, "SAMPLE", 90)
    monkeypatch.setattr(module, "CHUNK", 64)
    assert adjusted_rand_score(truth, kmeans(features, 3, seed=0)) == 1.0
