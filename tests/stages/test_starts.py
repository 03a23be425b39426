"""Where heads start: k-means as anyone would write it, many runs at a time."""

import numpy as np
import pytest
import torch
from torch import Tensor

from spice.engine.run import Run
from spice.settings import HeadSettings
from spice.stages.heads import starts
from spice.stages.heads.starts import kmeans_starts
from spice.stages.views import Views


def three_groups(*, bank: bool = False) -> tuple[Views, Tensor]:
    """Ninety images around three directions, and which; with a bank, that is what they are compared by."""
    kind = torch.arange(90) % 3
    noise = 0.2 * torch.randn(90, 5, generator=torch.Generator().manual_seed(0))
    plain = (4 * torch.eye(5)[kind] + noise).numpy()
    weak = np.zeros((1, 90, 5), dtype=np.float32)
    return Views(plain, weak, weak, plain - plain.mean(axis=0) if bank else None), kind


def as_centers(places: Tensor) -> Tensor:
    return starts._center_at(starts._append_one(places))


def test_a_round_is_lloyds_and_a_center_without_images_stays() -> None:
    randomness = torch.Generator().manual_seed(0)
    images = torch.randn(40, 3, generator=randomness)
    places = torch.randn(2, 4, 3, generator=randomness)
    places[1, 2] = 50.0  # far from every image
    found = starts._lloyd(as_centers(places), starts._append_one(images), rounds=1)
    for run in range(2):
        nearest = torch.cdist(images, places[run]).argmin(dim=1)
        for number in range(4):
            mine = images[nearest == number]
            expected = mine.mean(dim=0) if len(mine) else places[run, number]
            torch.testing.assert_close(found[run, number], as_centers(expected))
    assert found[1, 2, :-1].tolist() == [50.0] * 3


def test_images_are_closest_to_the_nearest_center() -> None:
    randomness = torch.Generator().manual_seed(1)
    images, places = torch.randn(40, 3, generator=randomness), torch.randn(2, 4, 3, generator=randomness)
    closeness = starts._closeness(starts._append_one(images), as_centers(places))  # (2, 4, 40)
    distance = torch.cdist(images, places).square().mT
    torch.testing.assert_close(images.square().sum(dim=1) - 2 * closeness, distance, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bank", [False, True])
def test_every_head_starts_from_the_groups(bank: bool) -> None:
    views, kind = three_groups(bank=bank)
    start = kmeans_starts(views, HeadSettings(clusters=3, heads=6, start_runs=4), Run())
    assert start.centers.shape == (6, 3, 5 + 1)
    assert start.unit != bank
    probs = start.probs(views.take_bank(slice(None)))
    torch.testing.assert_close(probs.sum(dim=2), torch.ones(6, 90))
    for head in probs.argmax(dim=2):
        names = [head[kind == group].unique() for group in range(3)]
        assert torch.cat(names).sort().values.tolist() == [0, 1, 2]  # one name for each group, none twice


def test_heads_computed_a_few_at_a_time_all_get_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    views, _ = three_groups()
    monkeypatch.setattr(starts, "MAX_NUMBERS", 90 * 3 * 2 * 2)  # two heads of two runs
    start = kmeans_starts(views, HeadSettings(clusters=3, heads=5, start_runs=2), Run())
    assert start.centers.shape == (5, 3, 5 + 1)
