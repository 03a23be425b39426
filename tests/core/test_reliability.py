"""Reliable labels and consistency labels, with their edges (III-C)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spice.core import IGNORE, authors_reliable, consistency_labels, consistency_ratio, reliable


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), images=st.integers(2, 20), neighbors=st.integers(1, 12))
def test_the_ratio_is_the_share_of_neighbors_with_the_same_label(seed: int, images: int, neighbors: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (images,), generator=generator)
    nearest = torch.randint(images, (images, neighbors), generator=generator)
    expected = [
        sum(labels[j].item() == labels[i].item() for j in nearest[i].tolist()) / neighbors for i in range(images)
    ]
    ratio = consistency_ratio(labels, nearest)
    assert ratio.dtype == torch.float32
    assert ratio.tolist() == pytest.approx(expected, abs=1e-7)
    names = torch.randperm(3, generator=generator)
    assert torch.equal(consistency_ratio(names[labels], nearest), ratio)  # renaming clusters changes nothing
    for narrow in (torch.int32, torch.uint8):  # and an index of bytes is no mask
        assert torch.equal(consistency_ratio(labels.to(narrow), nearest.to(narrow)), ratio)


def test_reliable_is_strictly_above_the_threshold() -> None:
    assert reliable(torch.tensor([0.5, 0.75, 0.875, 1.0]), threshold=0.75).tolist() == [False, False, True, True]


@pytest.mark.parametrize(("neighbors", "agreeing"), [(20, 19), (100, 95), (40, 38)])
def test_exactly_95_percent_is_not_reliable_by_default(neighbors: int, agreeing: int) -> None:
    labels = torch.tensor([0] * (agreeing + 2) + [1] * neighbors)
    for same, expected in ((agreeing, False), (agreeing + 1, True)):
        nearest = torch.arange(1, neighbors + 1).repeat(len(labels), 1)
        nearest[0] = torch.tensor([1] * same + [len(labels) - 1] * (neighbors - same))
        assert reliable(consistency_ratio(labels, nearest))[0].item() is expected


def test_the_ratio_of_a_whole_cluster_is_one_and_of_a_stranger_zero() -> None:
    labels = torch.tensor([0, 0, 0, 1])
    neighbors = torch.tensor([[1, 2], [0, 2], [0, 1], [0, 1]])
    assert consistency_ratio(labels, neighbors).tolist() == [1, 1, 1, 0]


def test_ratios_are_refused_in_words_where_rows_do_not_match() -> None:
    labels, neighbors = torch.tensor([0, 1, 2]), torch.tensor([[1], [2], [0]])
    for bad_labels, bad_neighbors in (
        (labels[1:], neighbors),
        (labels, neighbors.flatten()),
        (labels.unsqueeze(dim=1), neighbors),
    ):
        with pytest.raises(ValueError, match=r"labels \(N,\) and neighbors \(N, S\) do not match: \("):
            consistency_ratio(bad_labels, bad_neighbors)


def test_ratios_are_refused_in_words_where_positions_or_labels_are_none() -> None:
    labels, neighbors = torch.tensor([0, 1, 2]), torch.tensor([[1], [2], [0]])
    for bad in (3, -1):
        with pytest.raises(ValueError, match=r"neighbors must lie in 0..2, got"):
            consistency_ratio(labels, torch.tensor([[1], [bad], [0]]))
    with pytest.raises(ValueError, match=r"labels must lie in 0..\d+, got -1..2"):
        consistency_ratio(torch.tensor([0, IGNORE, 2]), neighbors)
    with pytest.raises(ValueError, match=r"labels must be whole numbers, got torch.float32"):
        consistency_ratio(labels.float(), neighbors)


def test_thresholds_out_of_range_are_refused_in_words() -> None:
    for bad in (1.5, -0.1, math.nan):
        with pytest.raises(ValueError, match=rf"the threshold must lie in 0..1, got {bad}"):
            reliable(torch.tensor([0.5]), threshold=bad)
        with pytest.raises(ValueError, match=rf"the threshold must lie in 0..1, got {bad}"):
            consistency_labels(torch.tensor([[1.0, 0.0]]), threshold=bad)
    assert reliable(torch.tensor([0.0, 0.5]), threshold=0.0).tolist() == [False, True]


def test_a_consistency_label_needs_at_least_the_threshold() -> None:
    probs = torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.8125, 0.1875], [0.0, 1.0]])
    assert consistency_labels(probs, threshold=0.75).tolist() == [1, IGNORE, 0, 1]  # 0.75 is exact in floats
    assert consistency_labels(probs, threshold=1.0).tolist() == [IGNORE, IGNORE, IGNORE, 1]
    assert consistency_labels(probs, threshold=0.0).tolist() == [1, 0, 0, 1]  # of equals the first


def test_the_consistency_threshold_is_95_percent_by_default() -> None:
    probs = torch.tensor([[0.96, 0.04], [0.95, 0.05], [0.949, 0.051]])
    assert consistency_labels(probs).tolist() == [0, 0, IGNORE]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_consistency_labels_take_any_dtype_and_any_leading_dimensions(dtype: torch.dtype) -> None:
    probs = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0)).mul(4).softmax(dim=2)
    expected = [
        [row.index(max(row)) if max(row) >= 0.6 else IGNORE for row in head] for head in probs.to(dtype).tolist()
    ]
    labels = consistency_labels(probs.to(dtype), threshold=0.6)
    assert labels.tolist() == expected
    assert labels.dtype == torch.int64
    assert len(set(labels.flatten().tolist())) > 2


def test_consistency_labels_of_logits_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="are these logits"):
        consistency_labels(torch.tensor([[3.0, -3.0]]))


def sure(labels: list[int], probability: list[float], clusters: int) -> torch.Tensor:
    """Probabilities (N, K) with the given largest one."""
    probs = ((1 - torch.tensor(probability, dtype=torch.float64)) / (clusters - 1)).unsqueeze(dim=1).repeat(1, clusters)
    probs[torch.arange(len(labels)), torch.tensor(labels)] = torch.tensor(probability, dtype=torch.float64)
    return probs


def test_the_authors_rule_asks_for_agreement_and_confidence_and_cuts_to_the_smallest() -> None:
    #          agreeing neighbors of 100 / largest probability
    labels = [0, 0, 0, 0, 0, 1, 1, 1]
    ratio = torch.tensor([100, 90, 89, 95, 99, 90, 100, 100]) / 100
    probs = sure(labels, [0.995, 0.991, 1.0, 0.99, 0.999, 0.999, 0.992, 0.98], 2)
    kept = authors_reliable(ratio, probs, threshold=0.90, generator=torch.Generator().manual_seed(0))
    # 90 of 100 is enough, 89 is not; 0.991 is enough, 0.99 and 0.98 are not: {0, 1, 4} and {5, 6}, cut to two each.
    assert kept[[5, 6]].all()
    assert not kept[[2, 3, 7]].any()
    assert int(kept[[0, 1, 4]].sum()) == 2
    # Which of the larger cluster stay is a matter of chance, and of the seed alone.
    draws = {
        tuple(authors_reliable(ratio, probs, threshold=0.90, generator=torch.Generator().manual_seed(seed)).tolist())
        for seed in range(20)
    }
    assert len(draws) == 3
    again = authors_reliable(ratio, probs, threshold=0.90, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again, kept)


def test_under_the_authors_rule_one_cluster_without_a_reliable_image_empties_the_set() -> None:
    labels = [0, 0, 0, 1, 1, 1, 2]
    probs = sure(labels, [1.0] * 6 + [0.5], 3)
    ratio = torch.ones(7)
    assert not authors_reliable(ratio, probs, threshold=0.99, generator=torch.Generator()).any()
    # So does a cluster that no image is in.
    assert not authors_reliable(ratio[:6], probs[:6], threshold=0.99, generator=torch.Generator()).any()
    # The paper's rule keeps the two others.
    assert reliable(ratio, threshold=0.95)[:6].all()
