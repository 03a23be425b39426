"""Selection of heads by their loss, and diagnostics of the selected head without labels."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from spice.core import IGNORE, double_softmax_cross_entropy, negative_entropy, prototype_labels
from spice.core.fast_prototypes import nearest_labels
from spice.engine.run import Run
from spice.errors import SpiceWarning
from spice.models.heads import Heads
from spice.presets import standard_heads
from spice.settings import HeadSettings
from spice.stages.heads import diagnostics, select
from spice.stages.heads.diagnostics import (
    EmptyClusterWarning,
    GiantClusterWarning,
    HeadDiagnostics,
    SharedPrototypeWarning,
    UnstableHeadsWarning,
    diagnose,
    head_agreement,
    warn_about,
)
from spice.stages.heads.select import take_snapshot
from spice.stages.heads.train import train_heads
from spice.stages.views import Views


def groups(sizes: list[int]) -> Views:
    """Images of each group lie around one of `len(sizes)` orthogonal directions."""
    randomness = torch.Generator().manual_seed(0)
    kind = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    plain, weak, strong = 3 * torch.eye(8)[kind] + 0.3 * torch.randn(3, len(kind), 8, generator=randomness)
    return Views(plain.numpy(), weak.unsqueeze(dim=0).numpy(), strong.unsqueeze(dim=0).numpy())


def quick(clusters: int = 3, **changes: Any) -> HeadSettings:
    return HeadSettings.model_validate({"clusters": clusters, "heads": 4, "batch": 60} | changes)


VIEWS = groups([40, 40, 40])


def diagnosed(heads: Heads, selected: Heads, views: Views, settings: HeadSettings) -> HeadDiagnostics:
    found = diagnose(heads, selected, views, settings)
    warn_about(found, settings)
    return found


def head_of(centers: torch.Tensor) -> Heads:
    """One head that predicts the cluster with the largest inner product of center and image."""
    heads = Heads(1, centers.shape[1], len(centers))
    with torch.no_grad():
        heads.hidden[0, :-1] = torch.eye(centers.shape[1])
        heads.out_weight[0] = 5 * centers.T
        heads.hidden[0, -1] = 0
        heads.out_bias.zero_()
    return heads


@pytest.mark.parametrize(
    "changes",
    [{}, {"overlap": False}, {"sizes": "nearest"}, {"entropy": 0.5}, {"entropy": 0.5, "overlap": False}],
    ids=str,
)
def test_the_loss_is_that_of_the_whole_set_as_one_batch(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    heads = Heads(5, 8, 3)
    monkeypatch.setattr(select, "MAX_NUMBERS", 2 * 120 * 3)  # two heads at a time
    monkeypatch.setattr(select, "CHUNK", 50)
    settings = quick(**changes)
    snapshot = take_snapshot(heads, VIEWS, settings, epoch=7)
    assert snapshot.epoch == 7
    plain, weak, strong = (torch.from_numpy(table) for table in (VIEWS.plain, VIEWS.weak[0], VIEWS.strong[0]))
    for number in range(5):
        head = heads.head(number)
        probs = head(weak).softmax(dim=1)
        nearest = settings.sizes == "nearest"
        chosen = nearest_labels(plain, probs) if nearest else prototype_labels(plain, probs, overlap=settings.overlap)
        logits = head(strong[chosen.image])
        loss = double_softmax_cross_entropy(logits, chosen.cluster)
        kept = logits[chosen.cluster != IGNORE]
        loss = loss + settings.entropy * negative_entropy(kept.softmax(dim=1))
        torch.testing.assert_close(snapshot.loss[number], loss.detach())
        assert snapshot.distinct[number] == pytest.approx(len(set(chosen.image.tolist())) / len(chosen.image))


def test_the_best_head_of_all_epochs_is_kept_with_its_weights() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        trained = train_heads(VIEWS, quick(epochs=12, learning_rate=1.0, loss="cross_entropy"), Run())
    losses = torch.stack([snapshot.loss for snapshot in trained.snapshots])  # (epochs, H)
    epoch, number = divmod(int(losses.argmin()), losses.shape[1])
    assert trained.best[:2] == (trained.snapshots[epoch].epoch, number)
    assert epoch < 11, "with so large a learning rate, the last epoch should not be the best"
    again = Heads(1, 8, 3)
    again.load_state_dict(trained.best.parameters)
    torch.testing.assert_close(take_snapshot(again, VIEWS, quick(loss="cross_entropy"), epoch=0).loss[0], losses.min())


def test_head_agreement_is_the_mean_adjusted_rand_index() -> None:
    labels = torch.randint(4, (5, 200), generator=torch.Generator().manual_seed(0))
    labels[1, :150] = (labels[0, :150] + 1) % 4
    pairs = [adjusted_rand_score(one, other) for one, other in itertools.combinations(labels, 2)]
    assert head_agreement(labels, 4) == pytest.approx(np.mean(pairs))
    assert head_agreement(torch.zeros(3, 10, dtype=torch.long), 4) == 1.0
    assert np.isnan(head_agreement(labels[:1], 4))


def test_a_good_head_causes_no_warning() -> None:
    heads = head_of(torch.eye(8)[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("error", SpiceWarning)
        found = diagnosed(heads, heads, VIEWS, quick())
    assert found.shared == []
    assert found.empty == []
    assert found.distinct == 1.0
    assert found.largest == pytest.approx(1 / 3)


def test_clusters_with_one_prototype_are_named() -> None:
    centers = torch.eye(8)[[0, 1, 1]]
    with pytest.warns(SharedPrototypeWarning, match="groups 1 and 2 share their typical images") as caught:
        found = diagnosed(head_of(centers), head_of(centers), VIEWS, quick())
    assert not any("try" in str(warning.message) for warning in caught)  # only the verdicts give advice
    assert found.shared == [(1, 2)]
    assert found.distinct == pytest.approx(2 / 3)


def test_shared_images_count_once_however_often_they_are_labeled() -> None:
    labels = torch.zeros(5, 3)
    labels[[0, 1, 2], 0] = torch.tensor([2.0, 1.0, 1.0])
    labels[[0, 3, 4], 1] = 1.0  # one of three images in common with the first
    labels[[3, 4], 2] = 1.0  # all in common with the second
    assert diagnostics._shared_prototypes(labels) == [(1, 2)]


def test_empty_clusters_are_named() -> None:
    centers = torch.cat([torch.eye(8)[:3], -torch.ones(1, 8)])
    with pytest.warns(EmptyClusterWarning, match=r"1 of 4 groups have no images \(3\)"):
        assert diagnosed(head_of(centers), head_of(centers), VIEWS, quick(4)).empty == [3]


def test_a_giant_cluster_is_named() -> None:
    views = groups([200, 20, 20])
    heads = head_of(torch.eye(8)[:3])
    with pytest.warns(GiantClusterWarning, match="one group has 83% of the images"):
        diagnosed(heads, heads, views, quick())


def test_heads_that_disagree_cause_a_warning() -> None:
    torch.manual_seed(0)
    with pytest.warns(UnstableHeadsWarning, match="another seed may give different groups"):
        diagnosed(Heads(6, 8, 3), head_of(torch.eye(8)[:3]), VIEWS, quick())


def test_renaming_clusters_does_not_change_the_loss() -> None:
    torch.manual_seed(0)
    heads, renamed = Heads(2, 8, 3), Heads(2, 8, 3)
    renamed.load_state_dict(heads.state_dict())
    order = [2, 0, 1]
    with torch.no_grad():
        renamed.out_weight.copy_(heads.out_weight[:, :, order])
        renamed.out_bias.copy_(heads.out_bias[:, :, order])
    losses, after = (take_snapshot(each, VIEWS, quick(), epoch=0).loss for each in (heads, renamed))
    torch.testing.assert_close(after, losses)


def clusters_of(labels: Tensor) -> Tensor:
    """(H, N) -> (H, 3, N)."""
    return F.one_hot(labels.long(), 3).mT.float()


def test_a_more_compact_head_is_selected_over_one_with_a_giant_cluster_and_a_lower_loss() -> None:
    # As measured on Fashion-MNIST: the first head merges shirts, coats and pullovers into a cluster of a quarter.
    loss, compact, nothing = torch.tensor([1.4789, 1.4871]), torch.tensor([0.7538, 0.7567]), torch.zeros(2)
    snapshot = select.HeadSnapshot(1, loss, compact, nothing, nothing)
    assert int(snapshot.score(standard_heads(10)).argmin()) == 1
    assert int(snapshot.score(HeadSettings(clusters=10)).argmin()) == 0  # the paper's rule


def test_compactness_is_the_share_of_variance_between_clusters() -> None:
    """The k-means objective in loops, and its extremes: one cluster, and every image at its center."""
    labels = torch.randint(3, (2, 120), generator=torch.Generator().manual_seed(0))
    bank = torch.from_numpy(VIEWS.plain) + 5
    total = (bank - bank.mean(dim=0)).square().sum()
    for row, share in zip(labels, select.compactness(bank, clusters_of(labels)), strict=True):
        within = sum((bank[row == k] - bank[row == k].mean(dim=0)).square().sum() for k in range(3))
        torch.testing.assert_close(share, 1 - within / total, rtol=1e-4, atol=1e-5)
    assert select.compactness(bank, clusters_of(torch.zeros(1, 120))) == pytest.approx(0.0, abs=1e-6)
    corners = torch.eye(3).repeat_interleave(40, dim=0)
    assert select.compactness(corners, clusters_of(torch.arange(3).repeat_interleave(40)[None])) == pytest.approx(1.0)


def test_among_equally_compact_heads_the_lowest_loss_is_selected() -> None:
    nothing = torch.zeros(2)
    snapshot = select.HeadSnapshot(1, torch.tensor([1.5, 1.4]), torch.tensor([0.8, 0.8]), nothing, nothing)
    assert int(snapshot.score(standard_heads(10)).argmin()) == 1
