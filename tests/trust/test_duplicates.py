"""Near-duplicates: pairs, pixels and originals."""

import numpy as np
import pytest

from spice.trust.duplicates import SAME, SIDE, Pairs, compare_pixels, duplicate_of, similar_pairs


def pairs(*ends: tuple[int, int]) -> Pairs:
    first, second = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return Pairs(first, second, np.ones(len(ends), np.float32))


def test_every_pair_is_found_once() -> None:
    neighbors = np.array([[1, 2], [0, 2], [1, 3], [2, 1]])
    similarities = np.array([[0.99, 0.1], [0.99, 0.96], [0.96, 0.2], [0.95, 0.1]], np.float32)
    found = similar_pairs(neighbors, similarities, 0.95)
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [(0, 1), (1, 2), (2, 3)]
    np.testing.assert_allclose(found.likeness, [0.99, 0.96, 0.95])
    assert found.above(0.96).second.tolist() == [1, 2]


def test_the_original_is_the_first_image_in_order() -> None:
    assert duplicate_of(4, pairs((0, 1), (1, 3)), np.array([1, 0, 2, 3])).tolist() == [1, -1, -1, 1]


def test_a_chain_of_pairs_is_not_one_set_of_duplicates() -> None:
    chain = pairs((0, 1), (1, 2), (2, 3), (3, 4))
    assert duplicate_of(5, chain, np.arange(5)).tolist() == [-1, 0, -1, 2, -1]


def test_an_original_never_becomes_a_duplicate() -> None:
    # 0 and 2 become originals before 1, which resembles both.
    assert duplicate_of(3, pairs((0, 1), (1, 2)), np.array([2, 0, 1])).tolist() == [-1, 2, -1]


def test_without_pairs_there_are_no_duplicates() -> None:
    assert duplicate_of(3, pairs(), np.arange(3)).tolist() == [-1, -1, -1]


def picture(seed: int) -> np.ndarray:
    """A smooth random picture, like a photo."""
    noise = np.random.default_rng(seed).normal(size=(160, 160))
    waves = np.fft.rfft2(noise) / (1 + 2000 * np.square(np.hypot(np.fft.fftfreq(160)[:, None], np.fft.rfftfreq(160))))
    return np.fft.irfft2(waves).astype(np.float32)


def small(large: np.ndarray) -> np.ndarray:
    """(SIDE, SIDE), by nearest pixels."""
    rows = (np.arange(SIDE) + 0.5) / SIDE * large.shape[0]
    columns = (np.arange(SIDE) + 0.5) / SIDE * large.shape[1]
    return np.asarray(large[rows.astype(int)][:, columns.astype(int)])


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    return float(compare_pixels(pairs((0, 1)), lambda rows: np.stack([first, second])[rows]).likeness[0])


def test_copies_that_are_resized_brighter_mirrored_or_cropped_correlate() -> None:
    original = picture(0)
    whole = small(original)
    assert correlation(whole, whole) == pytest.approx(1)
    assert correlation(whole, 3 * small(original[::2, ::2]) + 20) > 0.97
    assert correlation(whole, small(original[:, ::-1])) > 0.97
    cropped = small(original[16:144, 16:144])
    assert correlation(whole, cropped) > SAME
    assert correlation(cropped, whole) == correlation(whole, cropped)
    assert correlation(whole, small(original[8:144, 16:152])) > SAME


def test_other_pictures_and_pictures_of_one_color_do_not_correlate() -> None:
    assert max(correlation(small(picture(0)), small(picture(seed))) for seed in range(1, 6)) < 0.8
    flat = np.full((SIDE, SIDE), 7, np.float32)
    assert correlation(flat, flat) == 0


def test_pictures_with_the_same_shading_but_different_detail_are_not_copies() -> None:
    sky_over_land = np.linspace(3, -3, SIDE, dtype=np.float32)[:, None]
    one, other = (
        sky_over_land + 0.3 * np.random.default_rng(seed).normal(size=(SIDE, SIDE)).astype(np.float32)
        for seed in range(2)
    )
    shading = np.corrcoef(one.ravel(), other.ravel())[0, 1]
    assert shading > 0.95
    assert abs(correlation(one, other)) < 0.3
    assert correlation(one, 2 * one[:, ::-1] + 5) == pytest.approx(1)


def test_pixels_are_compared_pair_by_pair() -> None:
    pictures = np.stack([small(picture(seed)) for seed in (0, 1, 0)])
    found = compare_pixels(pairs((0, 1), (0, 2), (1, 2)), lambda rows: pictures[rows])
    assert (found.likeness > 0.9).tolist() == [False, True, False]
    assert found.above(0.9).second.tolist() == [2]
