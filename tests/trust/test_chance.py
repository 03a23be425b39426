"""The chance that an image is in the right group."""

import numpy as np
import pytest

from spice.trust.chance import chance


def test_the_chance_is_the_share_with_one_more_neighbor_from_a_random_group() -> None:
    found = chance(np.array([0.0, 0.6, 1.0], np.float32), neighbors=5, clusters=4)
    np.testing.assert_allclose(found, [(0 + 0.25) / 6, (3 + 0.25) / 6, (5 + 0.25) / 6], rtol=1e-6)


def test_the_chance_keeps_the_order_of_r_and_never_reaches_certainty() -> None:
    found = chance(np.linspace(0, 1, 101, dtype=np.float32), neighbors=100, clusters=10)
    assert (np.diff(found) > 0).all()
    assert 0 < found[0] < found[-1] < 1


def test_few_neighbors_are_worth_less_than_many() -> None:
    few, many = (chance(np.ones(1, np.float32), neighbors, clusters=10)[0] for neighbors in (5, 100))
    assert few == pytest.approx(0.85)
    assert many == pytest.approx(100.1 / 101)


def test_no_neighbors_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one neighbor and one cluster, got 0 and 3"):
        chance(np.ones(1, np.float32), 0, 3)
