"""What is kept of every head's clusters, and how far other heads agree with each cluster of the answer."""

import pytest
import torch

from spice.models.heads import Heads
from spice.settings import HeadSettings
from spice.stages.heads import select
from spice.stages.heads.select import Look, cluster_agreement, compared, good_heads, look
from spice.stages.heads.train import train_heads
from spice.stages.views import Views


def views_of(images: int) -> Views:
    drawn = torch.randn(3, images, 8, generator=torch.Generator().manual_seed(0)).numpy()
    return Views(drawn[0], drawn[1:2], drawn[2:3])


def settings_of(**changes: object) -> HeadSettings:
    return HeadSettings.model_validate({"clusters": 3, "heads": 4, "epochs": 3, "batch": 60} | changes)


@pytest.mark.parametrize(("clusters", "dtype"), [(3, torch.uint8), (256, torch.uint8), (257, torch.int32)])
def test_a_look_keeps_what_every_head_says_of_the_plain_images(
    clusters: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, settings = views_of(600), settings_of(clusters=clusters)
    torch.manual_seed(0)
    heads = Heads(4, 8, clusters)
    monkeypatch.setattr(select, "COMPARED", 200)
    monkeypatch.setattr(select, "NUMBERS", 3 * 600 * clusters)  # three heads at a time
    seen = look(heads, views, settings, epoch=1)
    assert seen.labels.dtype == dtype
    for number in range(4):
        expected = heads.head(number)(torch.from_numpy(views.plain[::3])).argmax(dim=1)
        assert torch.equal(seen.labels[number].long(), expected)


def test_all_looks_together_keep_no_more_than_their_share() -> None:
    assert compared(500, settings_of()) == slice(0, 500, 1)
    for images in (9_999, 10_000, 10_001, 1_000_000):
        kept = range(images)[compared(images, settings_of())]
        assert 5_000 < len(kept) <= 10_000
    many = settings_of(heads=100, epochs=1000, select_every=2)
    assert 100 * 500 * len(range(1_000_000)[compared(1_000_000, many)]) <= select.KEPT


def test_the_result_tells_which_images_its_looks_are_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "COMPARED", 50)
    views = views_of(120)
    trained = train_heads(views, settings_of(), seed=0)
    rows = torch.arange(120)[trained.compared]
    said = trained.heads(torch.from_numpy(views.plain[rows])).argmax(dim=2)  # (H, n)
    assert torch.equal(trained.looks[-1].labels.long(), said)


def test_good_heads_are_the_better_half_without_the_selected_one() -> None:
    nothing = torch.zeros(5)
    seen = Look(1, torch.tensor([0.3, 0.1, 0.5, 0.2, 0.4]), nothing, nothing, nothing)
    assert good_heads(seen, settings_of(), apart_from=1) == [3, 0]
    assert good_heads(seen, settings_of(), apart_from=2) == [1, 3]
    two = Look(1, torch.tensor([0.3, 0.1]), *[torch.zeros(2)] * 3)
    assert good_heads(two, settings_of(), apart_from=1) == [0]
    assert good_heads(Look(1, torch.zeros(1), *[torch.zeros(1)] * 3), settings_of(), apart_from=0) == []
    compact = Look(1, torch.zeros(3), torch.tensor([0.1, 0.3, 0.2]), torch.zeros(3), torch.zeros(3))
    assert good_heads(compact, settings_of(compactness=2.0), apart_from=0) == [1]


def test_agreement_with_a_cluster_is_the_mean_of_the_best_overlaps() -> None:
    answer = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    same = torch.tensor([2, 2, 2, 2, 0, 0, 0, 0])  # other names, the same clusters
    halved = torch.tensor([0, 0, 1, 1, 2, 2, 2, 2])
    others = torch.stack([same, halved]).to(torch.uint8)
    torch.testing.assert_close(cluster_agreement(answer, others, 3), torch.tensor([0.75, 1.0, 0.0]))


def test_renaming_a_heads_clusters_changes_no_agreement() -> None:
    randomness = torch.Generator().manual_seed(0)
    answer = torch.randint(5, (300,), generator=randomness)
    others = torch.randint(5, (4, 300), generator=randomness)
    names = torch.randperm(5, generator=randomness)
    torch.testing.assert_close(cluster_agreement(answer, others, 5), cluster_agreement(answer, names[others], 5))
    torch.testing.assert_close(
        cluster_agreement(answer, others, 5), cluster_agreement(names[answer], others, 5)[names], msg="renamed answer"
    )
