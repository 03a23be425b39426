"""Images unlike all others."""

import numpy as np

from spice.trust.outliers import find_outliers


def test_tukeys_fence_computed_by_hand() -> None:
    # Distances 0.1, 0.2, 0.3, 0.4 and 0.9: quartiles 0.2 and 0.4, so the fence is at 0.4 + 1.5 * 0.2.
    similarities = np.repeat(1 - np.array([[0.1], [0.9], [0.2], [0.3], [0.4]]), 7, axis=1).astype(np.float32)
    found = find_outliers(similarities)
    np.testing.assert_allclose(found.fence, 0.7, rtol=1e-6)
    assert found.outlier.tolist() == [False, True, False, False, False]


def test_one_copy_does_not_hide_an_outlier_and_far_neighbors_do_not_make_one() -> None:
    similarities = np.full((20, 10), 0.8, np.float32)
    similarities[:, 5:] = 0.0  # beyond the five nearest
    similarities[3] = [1.0, *[0.1] * 9]
    assert np.flatnonzero(
        find_outliers(similarities + np.linspace(0, 0.01, 20, dtype=np.float32)[:, None]).outlier
    ).tolist() == [3]


def test_the_farthest_outlier_comes_first() -> None:
    similarities = np.full((50, 5), 0.9, np.float32)
    similarities[[4, 9, 30]] = np.array([[0.3], [0.1], [0.2]])
    assert find_outliers(similarities).farthest().tolist() == [9, 30, 4]
