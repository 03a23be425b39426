"""The labels that snapshots keep, and the stability of clusters over heads."""

import pytest
import torch

from spice.engine.run import Run
from spice.models.heads import Heads
from spice.settings import HeadSettings
from spice.stages.heads import select
from spice.stages.heads.diagnostics import cluster_stability
from spice.stages.heads.select import HeadSnapshot, good_heads, sample_for_comparison, take_snapshot
from spice.stages.heads.train import train_heads
from spice.stages.views import Views


def views_of(images: int) -> Views:
    drawn = torch.randn(3, images, 8, generator=torch.Generator().manual_seed(0)).numpy()
    return Views(drawn[0], drawn[1:2], drawn[2:3])


def settings_of(**changes: object) -> HeadSettings:
    return HeadSettings.model_validate({"clusters": 3, "heads": 4, "epochs": 3, "batch": 60} | changes)


@pytest.mark.parametrize(("clusters", "dtype"), [(3, torch.uint8), (256, torch.uint8), (257, torch.int32)])
def test_a_snapshot_keeps_the_labels_of_every_head_for_plain_images(
    clusters: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, settings = views_of(600), settings_of(clusters=clusters)
    torch.manual_seed(0)
    heads = Heads(4, 8, clusters)
    monkeypatch.setattr(select, "SAMPLE_SIZE", 200)
    monkeypatch.setattr(select, "MAX_NUMBERS", 3 * 600 * clusters)  # three heads at a time
    snapshot = take_snapshot(heads, views, settings, epoch=1)
    assert snapshot.labels.dtype == dtype
    for number in range(4):
        expected = heads.head(number)(torch.from_numpy(views.plain[::3])).argmax(dim=1)
        assert torch.equal(snapshot.labels[number].long(), expected)


def test_all_snapshots_together_keep_a_limited_number_of_labels() -> None:
    assert sample_for_comparison(500, settings_of()) == slice(0, 500, 1)
    for images in (9_999, 10_000, 10_001, 1_000_000):
        kept = range(images)[sample_for_comparison(images, settings_of())]
        assert 5_000 < len(kept) <= 10_000
    many = settings_of(heads=100, epochs=1000, select_every=2)
    assert 100 * 500 * len(range(1_000_000)[sample_for_comparison(1_000_000, many)]) <= select.MAX_KEPT_LABELS


def test_the_result_names_the_images_whose_labels_its_snapshots_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "SAMPLE_SIZE", 50)
    views = views_of(120)
    trained = train_heads(views, settings_of(), Run())
    rows = torch.arange(120)[trained.sample]
    predicted = trained.heads(torch.from_numpy(views.plain[rows])).argmax(dim=2)  # (H, n)
    assert torch.equal(trained.snapshots[-1].labels.long(), predicted)


def test_good_heads_are_the_better_half_without_the_selected_one() -> None:
    nothing = torch.zeros(5)
    snapshot = HeadSnapshot(1, torch.tensor([0.3, 0.1, 0.5, 0.2, 0.4]), nothing, nothing, nothing)
    assert good_heads(snapshot, settings_of(), excluding=1) == [3, 0]
    assert good_heads(snapshot, settings_of(), excluding=2) == [1, 3]
    two = HeadSnapshot(1, torch.tensor([0.3, 0.1]), *[torch.zeros(2)] * 3)
    assert good_heads(two, settings_of(), excluding=1) == [0]
    assert good_heads(HeadSnapshot(1, torch.zeros(1), *[torch.zeros(1)] * 3), settings_of(), excluding=0) == []
    compact = HeadSnapshot(1, torch.zeros(3), torch.tensor([0.1, 0.3, 0.2]), torch.zeros(3), torch.zeros(3))
    assert good_heads(compact, settings_of(select_by="compactness"), excluding=0) == [1]


def test_the_stability_of_a_cluster_is_the_mean_of_the_best_overlaps() -> None:
    answer = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    same = torch.tensor([2, 2, 2, 2, 0, 0, 0, 0])  # the same clusters with other numbers
    halved = torch.tensor([0, 0, 1, 1, 2, 2, 2, 2])
    others = torch.stack([same, halved]).to(torch.uint8)
    torch.testing.assert_close(cluster_stability(answer, others, 3), torch.tensor([0.75, 1.0, 0.0]))


def test_renaming_the_clusters_of_a_head_does_not_change_stability() -> None:
    randomness = torch.Generator().manual_seed(0)
    answer = torch.randint(5, (300,), generator=randomness)
    others = torch.randint(5, (4, 300), generator=randomness)
    names = torch.randperm(5, generator=randomness)
    torch.testing.assert_close(cluster_stability(answer, others, 5), cluster_stability(answer, names[others], 5))
    torch.testing.assert_close(
        cluster_stability(answer, others, 5), cluster_stability(names[answer], others, 5)[names], msg="renamed answer"
    )
