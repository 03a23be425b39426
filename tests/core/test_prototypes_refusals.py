"""What the E-step of stage 2 cannot label, it refuses in words."""

import math

import pytest
import torch
from test_prototypes import FAST, PLAIN, EStep, random_batch  # type: ignore[import-not-found]  # a test beside this one

both_versions = pytest.mark.parametrize("estep", [PLAIN, FAST], ids=["plain", "fast"])


@both_versions
def test_too_small_a_batch_is_refused_in_words(estep: EStep) -> None:
    features, probs = random_batch(0, images=2, clusters=3)
    with pytest.raises(ValueError, match=r"2 images cannot label 3 clusters: use a batch of at least 3"):
        estep.labels(features, probs)


@both_versions
def test_a_batch_of_one_image_per_cluster_is_enough(estep: EStep) -> None:
    features, probs = random_batch(0, images=3, clusters=3)
    assert estep.labels(features, probs).image.shape == (3,)


@both_versions
def test_rows_that_do_not_match_are_refused_in_words(estep: EStep) -> None:
    features, probs = random_batch(0)
    with pytest.raises(ValueError, match=r"do not match: \(29, 4\) and \(30, 3\)"):
        estep.labels(features[1:], probs)
    with pytest.raises(ValueError, match=r"do not match: \(30, 4\) and \(29, 3\)"):
        estep.prototypes(features, probs[1:], per_cluster=2)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@both_versions
def test_features_that_are_no_numbers_are_refused_in_words(estep: EStep, bad: float) -> None:
    features, probs = random_batch(0)
    features[[3, 7], 2] = bad
    with pytest.raises(ValueError, match=r"features hold NaN or infinite values in 2 of 30 rows"):
        estep.labels(features, probs)
    with pytest.raises(ValueError, match=r"features hold NaN or infinite values in 2 of 30 rows"):
        estep.prototypes(features, probs, per_cluster=1)


@both_versions
def test_features_that_are_no_table_are_refused_in_words(estep: EStep) -> None:
    features, probs = random_batch(0)
    with pytest.raises(ValueError, match=r"do not match: \(30,\) and \(30, 3\)"):
        estep.labels(features[:, 0], probs)


@both_versions
def test_probabilities_that_are_none_are_refused_in_words(estep: EStep) -> None:
    features, probs = random_batch(0)
    for bad, words in [
        (torch.randn(30, 3).mul(5), r"are these logits\?"),
        (probs * math.nan, r"the lowest is nan"),
        (torch.tensor([[-0.25, 0.5, 0.75]]).repeat(30, 1), r"the lowest is -0.25, one sum is off by 0"),
        (probs * 0.5, r"sum to 1 for each image .* one sum is off by 0.5"),
        (torch.ones(30, 3), r"one sum is off by 2"),
        (probs.expand(2, 2, 30, 3), r"do not match: \(30, 4\) and \(2, 2, 30, 3\)"),
    ]:
        with pytest.raises(ValueError, match=words):
            estep.labels(features, bad)


@both_versions
def test_probabilities_may_be_off_one_by_what_coarse_numbers_need_and_no_more(estep: EStep) -> None:
    features = torch.ones(2, 1)
    estep.labels(features, torch.tensor([[1.0, 0.0078125], [1.0, 0.0]]))  # 2 ** -7, one step of bfloat16
    estep.labels(features, torch.tensor([[1.0078125, 0.0], [1.0, 0.0]]))
    for low in (0.015625, -0.015625):
        with pytest.raises(ValueError, match=r"off by 0\.01562"):
            estep.labels(features, torch.tensor([[0.5, 0.5 + low], [1.0, 0.0]]))
    logits = torch.randn(200, 200, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float16, torch.bfloat16):
        estep.labels(torch.eye(200), logits.softmax(dim=1).to(dtype))
        estep.labels(torch.eye(200), logits.to(dtype).softmax(dim=1))


@pytest.mark.parametrize("ratio", [0.0, -0.5, 1.01, math.nan])
@both_versions
def test_a_center_ratio_that_is_no_share_is_refused_in_words(estep: EStep, ratio: float) -> None:
    with pytest.raises(ValueError, match=r"center ratio must be above 0 and at most 1, got"):
        estep.labels(*random_batch(0), center_ratio=ratio)


@pytest.mark.parametrize("per_cluster", [0, 31, -1])
@both_versions
def test_a_prototype_of_no_image_or_of_too_many_is_refused_in_words(estep: EStep, per_cluster: int) -> None:
    with pytest.raises(ValueError, match=rf"mean of 1 to 30 images of this batch, not of {per_cluster}"):
        estep.prototypes(*random_batch(0), per_cluster=per_cluster)
