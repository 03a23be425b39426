"""The bank of training images in a model, and the comparison of new images with it."""

import pytest
import torch
from torch.nn import functional as F

from spice.stages import bank as module
from spice.stages.bank import build_bank, compare_with_bank


def blobs(images: int, clusters: int = 4, *, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    cluster = torch.arange(images) % clusters
    return F.one_hot(cluster, 16).float() + 0.1 * torch.randn(images, 16, generator=random), cluster


def test_new_images_are_judged_by_the_share_of_near_training_images_in_their_cluster() -> None:
    features, cluster = blobs(80)
    bank = build_bank(features, cluster, clusters=4, neighbors=10, seed=0)
    new, truth = blobs(12, seed=1)
    judged = compare_with_bank(bank, new, truth)
    similarity = F.cosine_similarity(new[:, None], bank.features.float()[None], dim=2)  # (Q, R)
    for i in range(12):
        near = similarity[i].topk(10).indices
        assert judged.reliability[i] == (bank.cluster[near] == truth[i]).float().mean()
        assert judged.similarity[i] == pytest.approx(similarity[i].max().item(), abs=1e-5)
    assert (judged.reliability == 1).all()
    wrong = compare_with_bank(bank, new, (truth + 1) % 4)
    assert (wrong.reliability == 0).all()


def test_images_like_the_training_ones_are_rarely_unlike_and_different_ones_always() -> None:
    features, cluster = blobs(2000)
    bank = build_bank(features, cluster, clusters=4, neighbors=50, seed=0)
    alike, truth = blobs(1000, seed=2)
    assert compare_with_bank(bank, alike, truth).unlike.float().mean() < 0.03
    other = F.one_hot(torch.full((50,), 12), 16).float() + 0.1 * torch.randn(50, 16)
    assert compare_with_bank(bank, other, torch.zeros(50, dtype=torch.long)).unlike.all()


def test_the_bank_of_a_large_collection_is_a_sample_with_fewer_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 250 * 2 * 16)
    features, cluster = blobs(1000)
    bank = build_bank(features, cluster, clusters=4, neighbors=100, seed=0)
    assert bank.features.shape == (250, 16)
    assert bank.neighbors == 25
    new, truth = blobs(40, seed=1)
    assert (compare_with_bank(bank, new, truth).reliability == 1).all()
    many = build_bank(features, cluster, clusters=8, neighbors=100, seed=0)
    assert len(many.features) == 400  # fifty for each cluster


def test_the_smallest_collections_have_a_bank() -> None:
    bank = build_bank(torch.eye(2), torch.tensor([0, 1]), clusters=2, neighbors=1, seed=0)
    assert bank.neighbors == 1
    judged = compare_with_bank(bank, torch.eye(2), torch.tensor([0, 0]))
    assert judged.reliability.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6, 1e14])
def test_the_bank_keeps_features_of_any_scale(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(60, 8, generator=generator)
    cluster = torch.arange(60) % 3
    usual = build_bank(features, cluster, clusters=3, neighbors=5, seed=0)
    scaled = build_bank(features * scale, cluster, clusters=3, neighbors=5, seed=0)
    ours, theirs = (compare_with_bank(bank, features, cluster) for bank in (usual, scaled))
    torch.testing.assert_close(ours.similarity, theirs.similarity, atol=2e-3, rtol=0)
