"""Sizes by optimal transport: the solution satisfies its equations, and has the two known rules as its ends."""

import pytest
import torch
from torch import Tensor

from spice.core.fast_prototypes import nearest_labels, nearest_table, prototype_table, size_offsets


def similarities(heads: int = 3, clusters: int = 4, images: int = 200) -> Tensor:
    """Cluster 0 is nearest to most images."""
    random = torch.Generator().manual_seed(0)
    drawn = 0.3 * torch.randn(heads, clusters, images, generator=random)
    drawn[:, 0] += 0.3
    return drawn


def shares(similarity: Tensor, offset: Tensor, smoothing: float = 0.1) -> Tensor:
    return ((similarity + offset) / smoothing).softmax(dim=-2).mean(dim=-1, keepdim=True)


@pytest.mark.parametrize("evenness", [0.05, 0.4, 2.0])
def test_an_offset_is_the_price_of_its_cluster_s_size(evenness: float) -> None:
    similarity = similarities()
    offset = size_offsets(similarity, evenness=evenness, rounds=500)
    price = -evenness * (4 * shares(similarity, offset)).log()  # evenness * ln((1 / K) / q)
    torch.testing.assert_close(offset, price, atol=1e-4, rtol=0)


def test_ten_rounds_are_close_to_the_solution() -> None:
    similarity = similarities()
    ten, many = (size_offsets(similarity, evenness=0.4, rounds=rounds) for rounds in (10, 500))
    assert (shares(similarity, ten) - shares(similarity, many)).abs().max() < 0.02


def test_a_higher_price_makes_sizes_more_even() -> None:
    similarity = similarities()
    largest = [
        float(shares(similarity, size_offsets(similarity, evenness=evenness, rounds=500)).max())
        for evenness in (1e-6, 0.1, 0.4, 10.0)
    ]
    assert largest == sorted(largest, reverse=True)
    assert largest[0] == pytest.approx(float(shares(similarity, torch.zeros(())).max()), abs=1e-3)
    assert largest[-1] == pytest.approx(0.25, abs=0.01)


def test_renaming_clusters_renames_offsets_and_heads_do_not_see_each_other() -> None:
    similarity, order = similarities(), torch.tensor([2, 0, 3, 1])
    offset = size_offsets(similarity, evenness=0.4)
    torch.testing.assert_close(size_offsets(similarity[:, order], evenness=0.4), offset[:, order])
    torch.testing.assert_close(size_offsets(similarity[1], evenness=0.4), offset[1])


def test_without_a_price_the_labels_are_the_nearest_and_with_one_small_clusters_get_more() -> None:
    random = torch.Generator().manual_seed(1)
    sizes = torch.tensor([80, 30, 10])
    centers = torch.eye(3).repeat_interleave(sizes, dim=0)
    features = centers + 0.5 * torch.randn(120, 3, generator=random)
    probs = (4 * centers).softmax(dim=1)
    assert torch.equal(nearest_table(features, probs, evenness=0.0), nearest_table(features, probs))
    free, priced = (nearest_table(features, probs, evenness=price).sum(dim=0) for price in (0.0, 1.0))
    assert priced[2] > free[2]
    assert priced[0] < free[0]
    # The table counts the pairs.
    pairs, table = nearest_labels(features, probs, evenness=1.0), torch.zeros(120, 3)
    table.index_put_((pairs.image, pairs.cluster), torch.ones(()), accumulate=True)
    assert torch.equal(table, nearest_table(features, probs, evenness=1.0))
    # The paper's rule has even sizes at any distance.
    assert prototype_table(features, probs).sum(dim=0).tolist() == [40, 40, 40]
