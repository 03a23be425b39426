"""Nearest neighbors, compared with all pairs in a loop, and impossible requests."""

import logging

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spice.neighbors import Neighbors, approximate, exact, nearest, nearest_with_recall, recall, search, unit_rows


def all_pairs(features: Tensor, count: int) -> Neighbors:
    """The definition: all cosines in double precision, without the image itself, by similarity, then by index."""
    unit = torch.nn.functional.normalize(features.double(), dim=1)
    similarity = (unit @ unit.T).fill_diagonal_(-torch.inf)
    values, index = similarity.sort(dim=1, descending=True, stable=True)
    return Neighbors(index[:, :count], values[:, :count])


def random_features(images: int, width: int, *, seed: int = 0) -> Tensor:
    return torch.randn(images, width, generator=torch.Generator().manual_seed(seed))


def grid_features(images: int, *, seed: int = 0) -> Tensor:
    """Unit vectors along the axes of 4-d space, in both directions: many exact ties, and exact arithmetic."""
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (images, 1), generator=generator) * 2.0 - 1.0
    return torch.eye(4)[torch.randint(0, 4, (images,), generator=generator)] * signs


@pytest.mark.parametrize(("images", "width", "count"), [(2, 3, 1), (50, 8, 49), (333, 16, 10), (3500, 24, 100)])
def test_neighbors_are_those_of_all_pairs(images: int, width: int, count: int) -> None:
    features = random_features(images, width)
    found, expected = nearest(features, count), all_pairs(features, count)
    torch.testing.assert_close(found.similarity, expected.similarity.float(), atol=1e-6, rtol=0)
    assert (found.index == expected.index).float().mean() > 0.999  # float32 may swap two with a difference of 1e-7
    assert found.index.dtype == torch.int64
    assert found.similarity.dtype == torch.float32


@pytest.mark.parametrize("count", [1, 7, 90])
@pytest.mark.parametrize("images", [1000, 1024, 3000])
def test_equal_similarities_are_ordered_by_index(images: int, count: int) -> None:
    features = grid_features(images)
    found, expected = nearest(features, count), all_pairs(features, count)
    assert torch.equal(found.index, expected.index)
    assert torch.equal(found.similarity, expected.similarity.float())


@settings(max_examples=40, deadline=None)
@given(images=st.integers(2, 300), share=st.floats(0, 1), seed=st.integers(0, 1000))
def test_any_size_and_count_agree_with_all_pairs_even_in_ties(images: int, share: float, seed: int) -> None:
    features, count = grid_features(images, seed=seed), 1 + int(share * (images - 2))
    assert torch.equal(nearest(features, count).index, all_pairs(features, count).index)


def test_the_size_of_blocks_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    features = grid_features(777)
    whole = nearest(features, 5)
    for rows in (1, 2, 100, 776):
        monkeypatch.setattr(exact, "BLOCK_ROWS", rows)
        assert torch.equal(nearest(features, 5).index, whole.index)


def test_the_similarities_of_all_pairs_are_never_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0

    def watched(similarities: Tensor, count: int) -> Neighbors:
        nonlocal largest
        largest = max(largest, similarities.numel())
        return select(similarities, count)

    select = exact._largest
    monkeypatch.setattr(exact, "_largest", watched)
    nearest(random_features(4000, 4), 3)
    assert 0 < largest <= exact.BLOCK_ROWS * 4000


def test_a_duplicate_is_a_neighbor_and_the_image_itself_is_not() -> None:
    features = random_features(3000, 32)
    features[2500] = features[17]
    features[2999] = features[17]
    found = nearest(features, 5)
    assert found.index[17, :2].tolist() == [2500, 2999]
    assert found.index[2500, :2].tolist() == [17, 2999]
    assert found.index[2999, :2].tolist() == [17, 2500]
    assert not (found.index == torch.arange(3000)[:, None]).any()


def test_copies_of_one_image_are_ordered_by_index() -> None:
    features = random_features(1, 100).expand(1500, 100)
    found = nearest(features, 3)
    assert found.index[0].tolist() == [1, 2, 3]
    assert found.index[1].tolist() == [0, 2, 3]
    assert (found.index[4:] == torch.tensor([0, 1, 2])).all()


def test_length_does_not_matter_even_at_the_edge_of_float32() -> None:
    features = random_features(200, 8)
    lengths = torch.logspace(-30, 30, 200)[:, None]
    assert torch.equal(nearest(features * 4, 9).index, nearest(features, 9).index)
    agreement = nearest(features * lengths, 9).index == nearest(features, 9).index
    assert agreement.float().mean() > 0.99


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.uint8])
def test_features_may_have_any_dtype(dtype: torch.dtype) -> None:
    features = (random_features(100, 8).abs() * 10 + 1).to(dtype)
    found = nearest(features, 3)
    torch.testing.assert_close(found.similarity, all_pairs(features, 3).similarity.float(), atol=1e-6, rtol=0)


def test_the_features_are_not_changed() -> None:
    features = random_features(64, 4)
    before = features.clone()
    nearest(features, 2)
    assert torch.equal(features, before)


def test_queries_may_be_other_images_and_then_no_image_is_excluded() -> None:
    features, queries = random_features(500, 8), random_features(7, 8, seed=1)
    queries[3] = features[123] * 2
    found = nearest(features, 500, queries=queries)
    assert found.index.shape == (7, 500)
    assert found.index[3, 0] == 123
    assert found.index[0].sort().values.tolist() == list(range(500))
    assert nearest(features, 4, queries=queries[:0]).index.shape == (0, 4)


@pytest.mark.parametrize(
    ("features", "count", "words"),
    [
        (torch.ones(5, 3), 5, "cannot find 5 neighbors among 4 other images"),
        (torch.ones(1, 3), 1, "cannot find 1 neighbors among 0 other images"),
        (torch.ones(0, 3), 1, "cannot find 1 neighbors among 0 other images"),
        (torch.ones(5, 3), 0, "need at least 1 neighbor, got count=0"),
        (torch.ones(5), 1, r"features must be \(images, width\), got shape \(5,\)"),
        (torch.ones(5, 0), 1, r"features must be \(images, width\), got shape \(5, 0\)"),
        (torch.tensor([[1.0], [torch.nan], [2.0]]), 1, "NaN or infinite values in row 1:"),
        (torch.tensor([[1.0], [-torch.inf], [torch.inf]]), 1, "NaN or infinite values in row 1 and 1 more:"),
    ],
)
def test_impossible_requests_are_refused_with_a_message(features: Tensor, count: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        nearest(features, count)


def test_queries_that_do_not_match_are_refused_with_a_message() -> None:
    features = torch.ones(5, 3)
    with pytest.raises(ValueError, match="queries have width 2, but features have width 3"):
        nearest(features, 1, queries=torch.ones(1, 2))
    with pytest.raises(ValueError, match="queries contain NaN or infinite values in row 0"):
        nearest(features, 1, queries=torch.full((1, 3), torch.nan))
    with pytest.raises(ValueError, match="cannot find 6 neighbors among 5 images"):
        nearest(features, 6, queries=torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"method must be .* got 'fast'"):
        nearest(features, 1, method="fast")  # type: ignore[arg-type]


# The approximate search.


def clustered_features(images: int, *, seed: int = 0) -> Tensor:
    centers = random_features(40, 16, seed=seed)
    return centers.repeat_interleave(images // 40, dim=0) + 0.5 * random_features(images // 40 * 40, 16, seed=seed + 1)


def test_the_approximate_search_has_the_required_recall(caplog: pytest.LogCaptureFixture) -> None:
    features = clustered_features(8000)
    with caplog.at_level(logging.INFO, logger="spice"):
        found = nearest(features, 20, method="approximate")
    assert "measured recall" in caplog.text
    assert recall(found.index, nearest(features, 20, method="exact").index) > approximate.RECALL - 0.02
    assert not (found.index == torch.arange(8000)[:, None]).any()
    assert (found.index >= 0).all()
    unit = torch.nn.functional.normalize(features, dim=1)
    torch.testing.assert_close(found.similarity, (unit[:, None] * unit[found.index]).sum(dim=2), atol=1e-5, rtol=0)
    assert (found.similarity.diff(dim=1) <= 0).all()


def test_the_approximate_search_excludes_the_image_but_not_its_duplicates() -> None:
    features = clustered_features(4000).repeat_interleave(3, dim=0)  # each image three times
    found = nearest(features, 2, method="approximate")
    itself = torch.arange(len(features))[:, None]
    assert not (found.index == itself).any()
    assert ((found.index // 3) == itself // 3).all()


def test_more_lists_are_searched_if_they_have_too_few_images() -> None:
    base = unit_rows(clustered_features(2000))
    found = approximate._search(approximate.build(base), None, 300, 1)  # one list has about 45 images
    own = torch.arange(2000)[:, None]
    assert not (found.index == own).any()
    assert all(len(set(row)) == 300 for row in found.index[::100].tolist())


def test_with_all_lists_the_search_is_exact() -> None:
    features = grid_features(900)
    lists = approximate.build(features)
    found = approximate._search(lists, None, 5, len(lists.centers))
    torch.testing.assert_close(found.similarity, nearest(features, 5).similarity)
    whole = random_features(900, 16)
    lists = approximate.build(whole)
    assert torch.equal(approximate._search(lists, None, 9, len(lists.centers)).index, nearest(whole, 9).index)


def test_noise_without_structure_takes_as_many_lists_as_the_recall_requires() -> None:
    found, measured = nearest_with_recall(random_features(3000, 64), 10, method="approximate")
    truth = nearest(random_features(3000, 64), 10, method="exact")
    assert measured >= approximate.RECALL
    assert recall(found.index, truth.index) > approximate.RECALL - 0.02


def test_copies_all_in_one_list_are_found() -> None:
    features = random_features(1, 8).expand(500, 8)
    found = nearest(features, 3, method="approximate")
    assert (found.similarity > 0.9999).all()
    assert not (found.index == torch.arange(500)[:, None]).any()


def test_the_approximate_search_accepts_other_images_as_queries() -> None:
    features, queries = clustered_features(8000), clustered_features(8000)[::20] + 0.01
    found = nearest(features, 10, queries=queries, method="approximate")
    assert recall(found.index, nearest(features, 10, queries=queries, method="exact").index) > 0.93


def test_the_size_of_the_collection_decides_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    features = clustered_features(1200)
    assert nearest_with_recall(features, 3).recall == 1.0
    assert nearest_with_recall(features, 3, method="exact").recall == 1.0
    monkeypatch.setattr(search, "APPROXIMATE_FROM", 1200)
    monkeypatch.setattr(approximate, "RECALL", 0.0)  # one list is enough
    assert nearest_with_recall(features, 3, method="exact").recall == 1.0
    assert nearest_with_recall(features, 3).recall < 1.0


def test_recall_is_the_share_of_true_neighbors_found() -> None:
    truth = torch.tensor([[1, 2, 3, 4], [9, 8, 7, 6]])
    assert recall(truth.flip(1), truth) == 1.0
    assert recall(torch.tensor([[4, 5, 6, 7], [7, 6, -1, 0]]), truth) == pytest.approx(3 / 8)
    with pytest.raises(ValueError, match="recall compares row by row, got 1 and 2 rows"):
        recall(truth[:1], truth)


def test_negative_zero_equals_positive_zero() -> None:
    neighbors = Neighbors(torch.tensor([[5, 2, 9]]), torch.tensor([[0.0, -0.0, 0.5]]))
    assert exact.ordered(neighbors).index.tolist() == [[9, 2, 5]]
