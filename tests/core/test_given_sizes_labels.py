"""Given sizes in the E-step and in the entropy term: the paper where all are the same, and quotas where not."""

import math

import pytest
import torch
from test_prototypes import cosine, mean_of, most, random_batch  # type: ignore[import-not-found]  # a test beside this one
from torch import Tensor

from spice.core import negative_entropy, prototype_labels, prototype_table, size_divergence
from spice.core.fast_prototypes import fast_prototype_labels, nearest_labels, nearest_table, size_offsets
from spice.core.sizes import by_size, quotas

SHARES = (0.2, 0.5, 0.3)


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("center_ratio", [1.0, 0.5])
@pytest.mark.parametrize(("images", "clusters"), [(30, 3), (49, 49), (100, 7), (41, 4)])
def test_uniform_shares_give_the_papers_labels_bit_for_bit(
    overlap: bool, center_ratio: float, images: int, clusters: int
) -> None:
    features, probs = random_batch(5, images=images, clusters=clusters, heads=3)
    uniform = (1 / clusters,) * clusters
    paper = prototype_table(features, probs, center_ratio=center_ratio, overlap=overlap)
    assert prototype_table(features, probs, center_ratio=center_ratio, overlap=overlap, shares=uniform).equal(paper)
    plain = prototype_labels(features, probs, center_ratio=center_ratio, overlap=overlap)
    found = fast_prototype_labels(features, probs, center_ratio=center_ratio, overlap=overlap, shares=uniform)
    assert found.image.equal(plain.image)
    assert found.cluster.equal(plain.cluster)


def in_loops(features: Tensor, probs: Tensor) -> list[list[int]]:
    """X^k with M * share images for prototype and labels; the largest share for the cluster that is the largest now."""
    rows, columns = features.tolist(), probs.T.tolist()
    order = most([sum(column) for column in columns], 3)  # clusters, largest first
    chosen: list[list[int]] = [[], [], []]
    for cluster, share in zip(order, sorted(SHARES, reverse=True), strict=True):
        count = int(len(rows) * share + 1e-6)
        center = mean_of([rows[i] for i in most(columns[cluster], count)])
        chosen[cluster] = most([cosine(row, center) for row in rows], count)
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_quotas_take_the_place_of_m_over_k_in_both_top_ks(seed: int) -> None:
    features, probs = random_batch(seed, images=40, clusters=3, heads=2)
    labels = fast_prototype_labels(features, probs, shares=SHARES)
    table = prototype_table(features, probs, shares=SHARES)
    for head in range(2):
        expected = in_loops(features, probs[head])
        pairs = [(image, cluster) for cluster in range(3) for image in expected[cluster]]
        assert list(zip(labels.image[head].tolist(), labels.cluster[head].tolist(), strict=True)) == pairs
        assert sorted(table[head].sum(dim=0).tolist()) == [8, 12, 20]
        assert all(table[head, image, cluster] == 1 for image, cluster in pairs)


def test_without_overlap_every_cluster_labels_its_quota_and_no_image_is_labeled_twice() -> None:
    features, probs = random_batch(1, images=40, clusters=3, heads=2)
    table = prototype_table(features, probs, overlap=False, shares=SHARES)
    assert table.sum(dim=2).max() == 1
    assert table.sum(dim=1).sort(dim=1).values.tolist() == [[8, 12, 20], [8, 12, 20]]


@pytest.mark.parametrize("labeled", [prototype_table, nearest_table])
def test_the_order_of_shares_does_not_matter_and_renaming_clusters_renames_labels(labeled) -> None:  # type: ignore[no-untyped-def]
    features, probs = random_batch(2, images=60, clusters=3, heads=2)
    table, order = labeled(features, probs, shares=SHARES), torch.tensor([2, 0, 1])
    assert labeled(features, probs, shares=SHARES[::-1]).equal(table)
    assert labeled(features, probs[..., order], shares=SHARES).equal(table[..., order])
    assert labeled(features, probs[1], shares=SHARES).equal(table[1])  # heads do not see each other


def test_transport_with_a_given_target_reaches_it() -> None:
    similarity = 0.3 * torch.randn(2, 3, 300, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([0.7, 0.2, 0.1]).view(3, 1).expand(2, 3, 1)
    offset = size_offsets(similarity, evenness=math.inf, target=target, rounds=30)
    reached = ((similarity + offset) / 0.1).softmax(dim=1).mean(dim=2, keepdim=True)
    torch.testing.assert_close(reached, target, atol=2e-3, rtol=0)


def test_by_the_nearest_prototype_the_shares_of_labels_are_those_given() -> None:
    random = torch.Generator().manual_seed(1)
    truth = torch.arange(3).repeat_interleave(torch.tensor([200, 60, 40]))
    features = torch.eye(3)[truth] + 0.4 * torch.randn(300, 3, generator=random)
    probs = (3 * torch.eye(3)[truth]).softmax(dim=1)
    table = nearest_table(features, probs, shares=(0.2, 0.5, 0.3))
    once = table - nearest_table(features, probs, shares=(0.2, 0.5, 0.3)).sub(1).clamp(min=0)  # without the repeats
    assert once.sum() == 300
    torch.testing.assert_close(once.mean(dim=0), torch.tensor([0.5, 0.3, 0.2]), atol=0.04, rtol=0)
    pairs, counted = nearest_labels(features, probs, shares=(0.2, 0.5, 0.3)), torch.zeros(300, 3)
    counted.index_put_((pairs.image, pairs.cluster), torch.ones(()), accumulate=True)
    assert counted.equal(table)


def test_the_divergence_is_that_of_its_equation_and_the_entropy_where_shares_are_uniform() -> None:
    probs = torch.randn(2, 30, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64).softmax(dim=2)
    for head in range(2):
        mean = [sum(row[k] for row in probs[head].tolist()) / 30 for k in range(3)]
        largest_first = sorted(mean, reverse=True)
        expected = sum(m * math.log(m / share) for m, share in zip(largest_first, (0.5, 0.3, 0.2), strict=True))
        assert float(size_divergence(probs, SHARES)[head]) == pytest.approx(expected, abs=1e-6)
    uniform = size_divergence(probs, (1 / 3,) * 3)
    torch.testing.assert_close(uniform, negative_entropy(probs) + math.log(3), atol=1e-6, rtol=0)
    assert float(size_divergence(torch.tensor([[0.3, 0.2, 0.5]]), SHARES)) == pytest.approx(0, abs=1e-6)


def test_quotas_are_whole_and_none_is_zero() -> None:
    assert quotas(100, (0.005, 0.695, 0.3)) == [69, 30, 1]
    assert quotas(49, [1 / 49] * 49) == [1] * 49  # 49 * (1 / 49) is below 1 in floats
    with pytest.raises(ValueError, match="shares must be above 0 and sum to 1"):
        quotas(10, (0.5, 0.6))
    with pytest.raises(ValueError, match="need a share for each of 4 clusters, got 3"):
        by_size(SHARES, torch.ones(5, 4))
