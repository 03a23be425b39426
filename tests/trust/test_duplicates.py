"""Near-duplicates."""

import numpy as np

from spice.trust.duplicates import Pairs, duplicate_of, similar_pairs


def pairs(*ends: tuple[int, int]) -> Pairs:
    first, second = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return Pairs(first, second, np.ones(len(ends), np.float32))


def test_every_pair_is_found_once_whoever_lists_it() -> None:
    neighbors = np.array([[1, 2], [0, 2], [1, 3], [2, 1]])
    similarities = np.array([[0.99, 0.1], [0.99, 0.96], [0.96, 0.2], [0.95, 0.1]], np.float32)
    found = similar_pairs(neighbors, similarities, 0.95)
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [(0, 1), (1, 2), (2, 3)]
    np.testing.assert_allclose(found.similarity, [0.99, 0.96, 0.95])
    assert found.above(0.96).second.tolist() == [1, 2]


def test_duplicates_name_the_first_image_in_order() -> None:
    assert duplicate_of(4, pairs((0, 1), (1, 3)), np.array([1, 0, 2, 3])).tolist() == [1, -1, -1, 1]


def test_a_chain_is_not_one_duplicate() -> None:
    chain = pairs((0, 1), (1, 2), (2, 3), (3, 4))
    assert duplicate_of(5, chain, np.arange(5)).tolist() == [-1, 0, -1, 2, -1]


def test_an_image_that_keeps_its_place_is_never_a_duplicate() -> None:
    # 0 and 2 keep their places before 1, which is like both, is reached.
    assert duplicate_of(3, pairs((0, 1), (1, 2)), np.array([2, 0, 1])).tolist() == [-1, 2, -1]


def test_no_pairs_are_no_duplicates() -> None:
    assert duplicate_of(3, pairs(), np.arange(3)).tolist() == [-1, -1, -1]
