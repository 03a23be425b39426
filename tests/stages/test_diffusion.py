"""Similarity that follows the neighbor graph: the walk written out, and the groups that only it finds."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score
from test_heads_training import groups, labels_of, quick, same  # type: ignore[import-not-found]  # a test beside this

from spice.engine.run import Run
from spice.neighbors import nearest
from spice.stages.heads.diagnostics import SharedPrototypeWarning
from spice.stages.heads.diffusion import STEPS, diffuse, graph_neighbors
from spice.stages.heads.train import train_heads
from spice.stages.views import Views


def neighbors_of(rows: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    return nearest(torch.from_numpy(rows), count).index.numpy()


def test_the_bank_is_the_walk_and_the_half_whitening_written_out() -> None:
    rows = groups([20, 15, 10]).plain - 1
    neighbors = neighbors_of(rows, 4)
    graph = np.zeros((45, 45))
    for image in range(45):
        for other in neighbors[image]:
            graph[image, other] += 0.5
            graph[other, image] += 0.5
    walk = (np.eye(45) + graph / graph.sum(axis=1, keepdims=True)) / 2
    walked = np.linalg.matrix_power(walk, STEPS) @ (rows - rows.mean(axis=0)).astype(np.float64)
    left, singular, _ = np.linalg.svd(walked - walked.mean(axis=0), full_matrices=False)
    expected = left[:, :6] * np.sqrt(singular[:6])  # of 8 components, two for each of 3 clusters
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)

    bank = diffuse(rows, neighbors, quick(3))
    assert bank.shape == (45, 6)
    np.testing.assert_allclose(bank @ bank.T, expected @ expected.T, atol=1e-4)


def bows() -> tuple[Views, NDArray[np.int64]]:
    """Two long bows side by side on a sphere: the ends of one are farther from each other than from the other bow."""
    random = np.random.default_rng(0)
    angle, kind = np.tile(np.linspace(-1.2, 1.2, 60), 2), np.repeat([0, 1], 60)
    height = np.where(kind == 0, 0.4, -0.4) + random.normal(0, 0.05, 120)
    plain = np.stack([np.sin(angle), height, np.cos(angle), np.ones(120)], axis=1).astype(np.float32)
    noisy = (plain + random.normal(0, 0.02, plain.shape)).astype(np.float32)[None]
    return Views(plain, noisy, noisy), kind


def test_long_groups_are_found_by_the_graph_and_cut_by_the_cosine() -> None:
    views, kind = bows()
    settings = quick(2, heads=8, epochs=60, batch=None, start="kmeans", components=4)
    by_cosine, by_graph = (
        labels_of(train_heads(views, settings.model_copy(update={"similarity": name}), Run()), views)
        for name in ("cosine", "graph")
    )
    assert adjusted_rand_score(kind, by_graph) > 0.9
    assert adjusted_rand_score(kind, by_cosine) < 0.5


def test_pieces_without_a_link_stay_where_their_features_are() -> None:
    # Six rings of near duplicates, two of each kind: the graph alone cannot know which belong together.
    views = groups([10] * 6, noise=0.01)
    centers = np.repeat(np.array([[4, 1, 1], [4, 1.6, 1], [1, 4, 1], [1.6, 4, 1], [1, 1, 4], [1, 1.6, 4]]), 10, axis=0)
    rows = (np.pad(centers, ((0, 0), (0, 5))) + 0.1 * (views.plain - views.plain.mean(axis=0))).astype(np.float32)
    bank = diffuse(rows, np.array([[i // 10 * 10 + (i + s) % 10 for s in (1, 2, 3)] for i in range(60)]), quick(3))
    means = bank.reshape(6, 10, -1).mean(axis=1)
    likeness = means @ means.T - 2 * np.eye(6)
    assert likeness.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4]


def test_known_neighbors_are_used_and_too_few_are_refused() -> None:
    views = groups([40, 40, 40])
    settings = quick(similarity="graph")
    known = nearest(torch.from_numpy(views.plain), 100).index
    assert same(train_heads(views, settings, Run(), known), train_heads(views, settings, Run()))
    with pytest.raises(ValueError, match="need 15 neighbors of each image, got 14"):
        train_heads(views, settings, Run(), known[:, :14])


@pytest.mark.parametrize(
    ("images", "clusters", "count"), [(3000, 10, 15), (3000, 150, 10), (100_000, 2, 15), (20, 10, 5)]
)
def test_the_graph_has_at_most_half_an_expected_cluster_of_neighbors(images: int, clusters: int, count: int) -> None:
    assert graph_neighbors(images, quick(clusters)) == count


def test_equal_images_have_a_similarity_too() -> None:
    views = groups([30, 30, 30])
    constant = np.ones_like(views.plain)
    bank = diffuse(constant, neighbors_of(constant, 5), quick(3))
    assert np.isfinite(bank).all()
    with pytest.warns(SharedPrototypeWarning):
        trained = train_heads(replace(views, plain=constant), quick(similarity="graph", components=4), Run())
    assert torch.isfinite(trained.snapshots[-1].loss).all()
