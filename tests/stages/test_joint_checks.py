"""The checks reject a result that joint training made worse."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from spice.stages.joint.checks import (
    ClusteringStats,
    clustering_stats,
    failed_checks,
)

GOOD = ClusteringStats(
    neighbor_agreement=0.9, prior_neighbor_agreement=0.9, chance_agreement=0.1, confident=0.8, loss=1.5, empty=0
)


def two_groups(*, sure: float) -> tuple[Tensor, Tensor, Tensor]:
    """Six images in two groups of three; the neighbors of each image are the other two of its group."""
    features = F.normalize(torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3), dim=1)
    probs = torch.tensor([[sure, 1 - sure]] * 3 + [[1 - sure, sure]] * 3)
    neighbors = torch.tensor([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]])
    return features, probs, neighbors


def stats(features: Tensor, probs: Tensor, neighbors: Tensor) -> ClusteringStats:
    return clustering_stats(features, probs, neighbors, prior_neighbors=neighbors, learned=torch.arange(2))


def test_a_perfect_clustering_has_perfect_stats() -> None:
    found = stats(*two_groups(sure=1.0))
    assert found == pytest.approx(
        ClusteringStats(
            neighbor_agreement=1.0,
            prior_neighbor_agreement=1.0,
            chance_agreement=0.5,
            confident=1.0,
            loss=math.log(math.e + 1) - 1,
            empty=0,
        )
    )


def test_stats_show_uncertain_split_and_empty_clusters() -> None:
    features, probs, neighbors = two_groups(sure=0.9)
    assert stats(features, probs, neighbors).confident == 0.0
    split = probs.clone()
    split[0] = probs[3]  # one image differs from its neighbors: it and both of them lose agreement
    assert stats(features, split, neighbors).neighbor_agreement == pytest.approx((0 + 0.5 + 0.5 + 3) / 6)
    one = torch.tensor([[0.9, 0.1]]).expand(6, 2)
    assert stats(features, one, neighbors).empty == 1
    assert stats(features, one, neighbors).chance_agreement == 1.0
    uneven = torch.cat([probs[:3], probs[:1], probs[4:]])  # four and two
    assert stats(features, uneven, neighbors).chance_agreement == pytest.approx((16 + 4) / 36)


def test_a_better_result_passes_every_check() -> None:
    assert (
        failed_checks(
            GOOD,
            ClusteringStats(
                neighbor_agreement=0.95,
                prior_neighbor_agreement=0.92,
                chance_agreement=0.1,
                confident=0.9,
                loss=1.47,
                empty=0,
            ),
        )
        == []
    )
    assert failed_checks(GOOD, GOOD) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"empty": 1}, "empty groups rose from 0 to 1"),
        ({"neighbor_agreement": 0.85}, "neighbor agreement fell from 0.90 to 0.85"),
        ({"confident": 0.6}, "confident predictions fell from 0.80 to 0.60"),
        ({"loss": 1.7}, "loss over all images rose from 1.50 to 1.70"),
    ],
)
def test_each_failed_check_is_named(change: dict[str, float], words: str) -> None:
    (reason,) = failed_checks(GOOD, GOOD._replace(**change))  # type: ignore[arg-type]
    assert words in reason


def test_prior_neighbor_agreement_uses_the_neighbors_before_joint_training() -> None:
    features, probs, neighbors = two_groups(sure=1.0)
    strangers = (neighbors + 3) % 6  # images of the other group
    found = clustering_stats(features, probs, strangers, prior_neighbors=neighbors, learned=torch.arange(2))
    assert (found.neighbor_agreement, found.prior_neighbor_agreement) == (0.0, 1.0)


def test_lower_confidence_passes_if_neighbors_agree_clearly_more() -> None:
    unsure = ClusteringStats(
        neighbor_agreement=0.95, prior_neighbor_agreement=0.895, chance_agreement=0.1, confident=0.5, loss=1.7, empty=0
    )
    assert failed_checks(GOOD, unsure) == []
    assert (
        len(failed_checks(GOOD, unsure._replace(prior_neighbor_agreement=0.88))) == 2
    )  # they agree only in the features that the labels have shaped
    assert len(failed_checks(GOOD, unsure._replace(neighbor_agreement=0.91))) == 2  # no more than by chance
    (reason,) = failed_checks(GOOD, unsure._replace(empty=2))
    assert "empty groups" in reason


def test_lower_confidence_fails_if_neighbors_agree_because_a_few_clusters_have_most_images() -> None:
    before = ClusteringStats(
        neighbor_agreement=0.594,
        prior_neighbor_agreement=0.594,
        chance_agreement=0.107,
        confident=0.438,
        loss=1.760,
        empty=0,
    )
    after = ClusteringStats(
        neighbor_agreement=0.611,
        prior_neighbor_agreement=0.590,
        chance_agreement=0.107,
        confident=0.325,
        loss=1.899,
        empty=0,
    )
    assert failed_checks(before, after) == []
    assert len(failed_checks(before, after._replace(chance_agreement=0.162))) == 2
    # If one cluster has all images, agreement is perfect but meaningless.
    assert (
        len(
            failed_checks(
                before, after._replace(neighbor_agreement=1.0, prior_neighbor_agreement=1.0, chance_agreement=1.0)
            )
        )
        == 2
    )
