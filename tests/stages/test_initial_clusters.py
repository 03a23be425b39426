"""The clusters that heads start from: many runs of k-means at a time, compared with a plain implementation."""

import numpy as np
import pytest
import torch
from torch import Tensor

from spice.engine.run import Run
from spice.settings import HeadSettings
from spice.stages.heads import initial_clusters
from spice.stages.heads.initial_clusters import clusters_by_kmeans
from spice.stages.views import Views


def three_groups(*, bank: bool = False) -> tuple[Views, Tensor]:
    """Ninety images around three directions, and the direction of each; with `bank`, the views have a bank."""
    kind = torch.arange(90) % 3
    noise = 0.2 * torch.randn(90, 5, generator=torch.Generator().manual_seed(0))
    plain = (4 * torch.eye(5)[kind] + noise).numpy()
    weak = np.zeros((1, 90, 5), dtype=np.float32)
    return Views(plain, weak, weak, plain - plain.mean(axis=0) if bank else None), kind


def as_centers(places: Tensor) -> Tensor:
    return initial_clusters._center_at(initial_clusters._append_one(places))


def test_a_round_of_lloyd_moves_centers_to_means_and_keeps_a_center_without_images() -> None:
    random = torch.Generator().manual_seed(0)
    images = torch.randn(40, 3, generator=random)
    places = torch.randn(2, 4, 3, generator=random)
    places[1, 2] = 50.0  # far from every image
    found = initial_clusters._lloyd(as_centers(places), initial_clusters._append_one(images), rounds=1)
    for run in range(2):
        nearest = torch.cdist(images, places[run]).argmin(dim=1)
        for number in range(4):
            mine = images[nearest == number]
            expected = mine.mean(dim=0) if len(mine) else places[run, number]
            torch.testing.assert_close(found[run, number], as_centers(expected))
    assert found[1, 2, :-1].tolist() == [50.0] * 3


def test_images_are_closest_to_the_nearest_center() -> None:
    random = torch.Generator().manual_seed(1)
    images, places = torch.randn(40, 3, generator=random), torch.randn(2, 4, 3, generator=random)
    closeness = initial_clusters._closeness(initial_clusters._append_one(images), as_centers(places))  # (2, 4, 40)
    distance = torch.cdist(images, places).square().mT
    torch.testing.assert_close(images.square().sum(dim=1) - 2 * closeness, distance, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bank", [False, True])
def test_the_initial_clusters_of_every_head_are_the_groups(bank: bool) -> None:
    views, kind = three_groups(bank=bank)
    start = clusters_by_kmeans(views, HeadSettings(clusters=3, heads=6, start_runs=4), Run())
    assert start.centers.shape == (6, 3, 5 + 1)
    assert start.unit != bank
    probs = start.probs(views.take_bank(slice(None)))
    torch.testing.assert_close(probs.sum(dim=2), torch.ones(6, 90))
    for head in probs.argmax(dim=2):
        names = [head[kind == group].unique() for group in range(3)]
        assert torch.cat(names).sort().values.tolist() == [0, 1, 2]  # a different cluster for each group


def test_every_head_gets_clusters_if_a_few_are_computed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    views, _ = three_groups()
    monkeypatch.setattr(initial_clusters, "MAX_NUMBERS", 90 * 3 * 2 * 2)  # two heads of two runs
    start = clusters_by_kmeans(views, HeadSettings(clusters=3, heads=5, start_runs=2), Run())
    assert start.centers.shape == (5, 3, 5 + 1)
