"""The number of groups in synthetic collections: even, uneven, nested, labeled, and without groups."""

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.stages.groups.test_curve import blobs

from spice.stages.groups.communities import Communities, communities, ratio
from spice.stages.groups.howmany import (
    GivenLabels,
    HowMany,
    choose_count,
    highest_count,
    how_many,
    principal_components,
    shortlist,
)
from spice.stages.groups.peaks import Curve, Peak


def listed(found: HowMany) -> list[int]:
    return [peak.clusters for peak in found.candidates]


def test_even_groups_are_counted_and_partitioned() -> None:
    found = how_many(blobs([40] * 5))
    assert found.clusters == 5
    partition = found.partitions[listed(found).index(5)]
    assert [len(set(part)) for part in np.split(partition, 5)] == [1] * 5
    assert found.communities == (5, 5)


def test_groups_of_uneven_size_are_counted_too() -> None:
    assert how_many(blobs([100, 90, 80, 70, 60])).clusters == 5
    assert 5 in listed(how_many(blobs([120, 100, 80, 60, 40])))  # four groups have nearly as much information


def test_nested_groups_are_both_on_the_shortlist_and_the_finer_number_is_chosen() -> None:
    random = np.random.default_rng(0)
    coarse = 20 * random.normal(size=(3, 30))
    fine = (coarse[:, None] + 3 * random.normal(size=(3, 4, 30))).reshape(12, 30)
    points = np.repeat(fine, 30, axis=0) + random.normal(size=(360, 30))
    found = how_many(points.astype("f4"))
    assert found.clusters == 12
    assert 3 in listed(found)


@pytest.mark.parametrize("kind", ["noise", "shuffled"])
def test_noise_and_shuffled_features_have_no_clear_groups(kind: str) -> None:
    random = np.random.default_rng(1)
    features: NDArray[np.float32] = random.normal(size=(400, 30)).astype("f4")
    if kind == "shuffled":
        features = random.permuted(blobs([80] * 5, width=80), axis=0)
    assert how_many(features).clusters is None


def test_the_number_is_within_the_range() -> None:
    points = blobs([40] * 5)
    found = how_many(points, least=7, most=9)
    assert found.curve.counts == [7, 8, 9]
    assert found.clusters in (7, 8, 9)


def test_given_labels_decide() -> None:
    points = blobs([40] * 6)
    kind = np.repeat(np.arange(6), 40)
    rows = np.arange(0, 240, 5)
    found = how_many(points, given=GivenLabels(rows, kind[rows] // 2))  # two groups under each name
    assert found.fits_labels
    assert found.clusters is not None
    assert found.clusters < 6
    assert found.clusters in listed(found)
    exact = how_many(points, given=GivenLabels(rows, kind[rows]))
    assert exact.clusters == 6


def test_the_same_seed_gives_the_same_answer() -> None:
    points = blobs([30] * 4, apart=3.0)
    one, other = how_many(points, seed=3), how_many(points, seed=3)
    np.testing.assert_array_equal(one.curve.score, other.curve.score)
    np.testing.assert_array_equal(one.partitions, other.partitions)


def test_the_highest_number_leaves_every_group_enough_neighbors() -> None:
    assert highest_count(3000, 2, None) == 2400 // 20
    assert highest_count(100, 2, None) == 80 // 5
    assert highest_count(1_000_000, 2, None) == 120
    assert highest_count(3000, 2, 40) == 40
    assert highest_count(30, 2, 40) == 12


def test_components_keep_distances_if_there_are_few_columns() -> None:
    features = np.random.default_rng(0).normal(size=(60, 7)).astype("f4")
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    points = principal_components(features, np.random.default_rng(0))
    np.testing.assert_allclose(
        np.linalg.norm(points[:, None] - points[None], axis=2),
        np.linalg.norm(unit[:, None] - unit[None], axis=2),
        atol=1e-5,
    )


def test_communities_are_groups_of_any_size() -> None:
    assert communities(blobs([100, 50, 30]), seed=0) == (3, 3)
    assert ratio(10, 15) == ratio(15, 10) == 1.5


def made_curve(*peaks: int) -> Curve:
    """A curve with clear peaks at these numbers of 2 to 40."""
    counts = list(range(2, 41))
    score = np.array([0.5 if count in peaks else 0.1 + count / 1000 for count in counts])
    return Curve(counts, np.stack([score, score + 0.001]))


def test_a_larger_collection_has_no_more_communities() -> None:
    cloud = np.random.default_rng(0).normal(size=(3_000, 6)).astype("f4")
    fine = communities(cloud, seed=0).fine  # 15 communities, if all images were joined
    assert abs(fine - communities(cloud[:1_500], seed=0).fine) <= 1


def test_the_shortlist_has_the_finest_peak_both_community_counts_and_no_number_twice() -> None:
    def numbers(curve: Curve, *first: int, fine: int, coarse: int) -> list[int]:
        return [peak.clusters for peak in shortlist(curve, list(first), Communities(fine, coarse))]

    assert numbers(made_curve(10), fine=14, coarse=7) == [7, 10, 14]
    assert numbers(made_curve(20), fine=21, coarse=12) == [12, 20]  # 21 counts as 20
    assert numbers(made_curve(3, 20), fine=21, coarse=12) == [3, 12, 20]  # room for another level
    assert numbers(made_curve(3, 10), fine=14, coarse=7) == [7, 10, 14]
    assert numbers(made_curve(10), 30, fine=14, coarse=7) == [10, 14, 30]  # required numbers come first


def test_the_coarsest_number_that_keeps_most_information_of_finer_ones_is_chosen() -> None:
    def chosen(*scores: tuple[int, float]) -> int:
        return choose_count([Peak(clusters, score, 0.0, 0.0) for clusters, score in scores])

    # (I - I0) = S ln K: 0.55, 0.57 and 0.64
    assert chosen((3, 0.50), (4, 0.41), (5, 0.40)) == 4
    assert chosen((3, 0.50), (4, 0.41)) == 3
    # Two groups have the best score and the least information: 0.29, 0.61 and 0.71.
    assert chosen((2, 0.42), (5, 0.38), (8, 0.34)) == 8
    assert chosen((7, -0.1)) == 7
