"""Joint training must not make things worse unseen."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from spice.stages.joint.checks import Signs, doubts, signs

GOOD = Signs(agreement=0.9, common=0.9, chance=0.1, confident=0.8, loss=1.5, empty=0)


def two_groups(*, sure: float) -> tuple[Tensor, Tensor, Tensor]:
    """Six images in two groups of three, each image with its two companions as neighbors."""
    features = F.normalize(torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3), dim=1)
    probs = torch.tensor([[sure, 1 - sure]] * 3 + [[1 - sure, sure]] * 3)
    neighbors = torch.tensor([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]])
    return features, probs, neighbors


def seen(features: Tensor, probs: Tensor, neighbors: Tensor) -> Signs:
    return signs(features, probs, neighbors, common=neighbors)


def test_a_perfect_clustering_shows_perfect_signs() -> None:
    found = seen(*two_groups(sure=1.0))
    assert found == pytest.approx(
        Signs(agreement=1.0, common=1.0, chance=0.5, confident=1.0, loss=math.log(math.e + 1) - 1, empty=0)
    )


def test_signs_tell_unsure_split_and_empty_clusters() -> None:
    features, probs, neighbors = two_groups(sure=0.9)
    assert seen(features, probs, neighbors).confident == 0.0
    split = probs.clone()
    split[0] = probs[3]  # one image says what its neighbors do not: it and both of them lose agreement
    assert seen(features, split, neighbors).agreement == pytest.approx((0 + 0.5 + 0.5 + 3) / 6)
    one = torch.tensor([[0.9, 0.1]]).expand(6, 2)
    assert seen(features, one, neighbors).empty == 1
    assert seen(features, one, neighbors).chance == 1.0
    uneven = torch.cat([probs[:3], probs[:1], probs[4:]])  # four and two
    assert seen(features, uneven, neighbors).chance == pytest.approx((16 + 4) / 36)


def test_a_better_result_raises_no_doubt() -> None:
    assert doubts(GOOD, Signs(agreement=0.95, common=0.92, chance=0.1, confident=0.9, loss=1.47, empty=0)) == []
    assert doubts(GOOD, GOOD) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"empty": 1}, "empty clusters rose from 0 to 1"),
        ({"agreement": 0.85}, "agreement with neighbors fell from 0.900 to 0.850"),
        ({"confident": 0.6}, "confident predictions fell from 0.800 to 0.600"),
        ({"loss": 1.7}, "loss over all images rose from 1.500 to 1.700"),
    ],
)
def test_each_sign_that_falls_is_named(change: dict[str, float], words: str) -> None:
    (doubt,) = doubts(GOOD, GOOD._replace(**change))  # type: ignore[arg-type]
    assert words in doubt


def test_agreement_before_is_counted_among_the_neighbors_before() -> None:
    features, probs, neighbors = two_groups(sure=1.0)
    strangers = (neighbors + 3) % 6  # those of the other group
    found = signs(features, probs, strangers, common=neighbors)
    assert (found.agreement, found.common) == (0.0, 1.0)


def test_where_neighbors_agree_clearly_more_being_less_sure_raises_no_doubt() -> None:
    unsure = Signs(agreement=0.95, common=0.895, chance=0.1, confident=0.5, loss=1.7, empty=0)
    assert doubts(GOOD, unsure) == []
    assert len(doubts(GOOD, unsure._replace(common=0.88))) == 2  # they agree only where its own labels have been
    assert len(doubts(GOOD, unsure._replace(agreement=0.91))) == 2  # no more than by chance
    (doubt,) = doubts(GOOD, unsure._replace(empty=2))
    assert "empty clusters" in doubt


def test_neighbors_that_agree_because_a_few_clusters_hold_most_images_do_not_outweigh_it() -> None:
    before = Signs(agreement=0.594, common=0.594, chance=0.107, confident=0.438, loss=1.760, empty=0)
    after = Signs(agreement=0.611, common=0.590, chance=0.107, confident=0.325, loss=1.899, empty=0)
    assert doubts(before, after) == []
    assert len(doubts(before, after._replace(chance=0.162))) == 2
    # Where one cluster holds everything, agreement is complete, and worth nothing.
    assert len(doubts(before, after._replace(agreement=1.0, common=1.0, chance=1.0))) == 2
