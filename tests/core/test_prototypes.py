"""The E-step of stage 2 against the paper written out in loops (III-B): the reference and the fast version of it."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spice.core import IGNORE, PseudoLabels, double_softmax_cross_entropy, prototype_labels, prototypes
from spice.core.fast_prototypes import fast_prototype_labels, fast_prototypes


class EStep(NamedTuple):
    """An implementation of the paper's E-step."""

    prototypes: Callable[..., Tensor]
    labels: Callable[..., PseudoLabels]


PLAIN, FAST = EStep(prototypes, prototype_labels), EStep(fast_prototypes, fast_prototype_labels)
both_versions = pytest.mark.parametrize("estep", [PLAIN, FAST], ids=["plain", "fast"])


def random_batch(
    seed: int, *, images: int = 30, width: int = 4, clusters: int = 3, heads: int | None = None
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(images, width, generator=generator, dtype=torch.float64)
    shape = (images, clusters) if heads is None else (heads, images, clusters)
    return features, torch.randn(shape, generator=generator, dtype=torch.float64).mul(3).softmax(dim=-1)


def most(values: list[float], count: int) -> list[int]:
    """Positions of the largest values, largest first, the earlier of equals first."""
    return sorted(range(len(values)), key=lambda i: (-values[i], i))[:count]


def mean_of(rows: list[list[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def cosine(a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / (math.hypot(*a) * math.hypot(*b))


def paper_labels(features: Tensor, probs: Tensor, center_ratio: float) -> tuple[list[list[float]], list[list[int]]]:
    """Equations for F_k, gamma_k and X^k in plain loops: the centers, and the images of each cluster."""
    rows, columns = features.tolist(), probs.T.tolist()
    images, clusters = len(rows), len(columns)
    confident = max(1, int(center_ratio * images / clusters))
    centers = [mean_of([rows[i] for i in most(column, confident)]) for column in columns]
    nearest = [most([cosine(row, center) for row in rows], images // clusters) for center in centers]
    return centers, nearest


def by_cluster(image: Tensor, clusters: int) -> list[list[int]]:
    rows: list[list[int]] = image.view(clusters, -1).tolist()
    return rows


# The paper's toy example: 10 images on a line of angles, 3 clusters, 3 images each.
TOY_ANGLES = [0, 10, 20, 40, 50, 60, 90, 100, 110, 30]
TOY_PROBS = [
    [0.9, 0.1, 0.0],  # 0, 1, 2: cluster 0 is sure of them
    [0.8, 0.1, 0.1],
    [0.7, 0.2, 0.1],
    [0.2, 0.7, 0.1],  # 3, 4, 5: cluster 1
    [0.1, 0.8, 0.1],
    [0.1, 0.6, 0.3],
    [0.0, 0.1, 0.9],  # 6, 7, 8: cluster 2
    [0.1, 0.1, 0.8],
    [0.1, 0.2, 0.7],
    [0.4, 0.3, 0.3],  # 9: nobody is sure
]


def toy() -> tuple[Tensor, Tensor]:
    angles = torch.deg2rad(torch.tensor(TOY_ANGLES, dtype=torch.float64))
    return torch.stack([angles.cos(), angles.sin()], dim=1), torch.tensor(TOY_PROBS, dtype=torch.float64)


@both_versions
def test_the_papers_toy_example_labels_three_images_for_each_of_three_clusters(estep: EStep) -> None:
    labels = estep.labels(*toy())
    assert labels.cluster.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    # The centers lie at 10, 50 and 100 degrees; the tenth image, at 30, is labeled by none.
    assert [sorted(images) for images in by_cluster(labels.image, 3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert labels.image[[0, 3, 6]].tolist() == [1, 4, 7]  # nearest first


@both_versions
def test_in_the_toy_example_an_image_between_two_prototypes_gets_both_labels_or_the_nearer_one(estep: EStep) -> None:
    features, probs = toy()
    probs[2], probs[9] = probs[9].clone(), probs[2].clone()  # cluster 0 now trusts the image at 30 degrees, not at 20
    probs[5], probs[9] = torch.tensor([0.1, 0.3, 0.6]), torch.tensor([0.45, 0.55, 0.0])
    # cluster 0: images 0, 1, 9 (13.1 degrees); cluster 1: 3, 4, 9 (40.0 degrees)
    both = estep.labels(features, probs)
    assert [sorted(images) for images in by_cluster(both.image, 3)[:2]] == [[0, 1, 2], [3, 4, 9]]
    probs[1], probs[2] = torch.tensor([0.2, 0.5, 0.3]), torch.tensor([0.5, 0.2, 0.3])
    # cluster 0: 0, 2, 9 (16.8 degrees) takes 1, 2, 9; cluster 1: 3, 4, 9 (40.0 degrees) takes 3, 4, 9: image 9 twice
    both = estep.labels(features, probs)
    assert [sorted(images) for images in by_cluster(both.image, 3)[:2]] == [[1, 2, 9], [3, 4, 9]]
    # Image 9 is 10 degrees from cluster 1 and 13 from cluster 0, which takes its next nearest, image 0: nine labels.
    single = estep.labels(features, probs, overlap=False)
    assert [sorted(images) for images in by_cluster(single.image, 3)] == [[0, 1, 2], [3, 4, 9], [6, 7, 8]]
    assert single.cluster.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("center_ratio", [1.0, 0.5, 0.1])
@pytest.mark.parametrize(("images", "clusters"), [(30, 3), (31, 4), (7, 7), (9, 5), (5, 1)])
@both_versions
def test_labels_equal_the_papers_equations_in_loops(
    estep: EStep, images: int, clusters: int, center_ratio: float
) -> None:
    features, probs = random_batch(images, images=images, clusters=clusters)
    _, expected = paper_labels(features, probs, center_ratio)
    labels = estep.labels(features, probs, center_ratio=center_ratio)
    assert by_cluster(labels.image, clusters) == expected
    assert labels.cluster.tolist() == [k for k in range(clusters) for _ in range(images // clusters)]


@pytest.mark.parametrize("per_cluster", [1, 4, 30])
@both_versions
def test_a_prototype_is_the_mean_of_the_most_confident_images(estep: EStep, per_cluster: int) -> None:
    features, probs = random_batch(1)
    rows = features.tolist()
    expected = [mean_of([rows[i] for i in most(column, per_cluster)]) for column in probs.T.tolist()]
    torch.testing.assert_close(
        estep.prototypes(features, probs, per_cluster=per_cluster), torch.tensor(expected).double()
    )


@both_versions
def test_all_heads_at_once_equal_the_loop_over_heads(estep: EStep) -> None:
    features, probs = random_batch(3, images=41, clusters=5, heads=6)
    for overlap in (True, False):
        for ratio in (1.0, 0.5):
            batched = estep.labels(features, probs, center_ratio=ratio, overlap=overlap)
            looped = [estep.labels(features, head, center_ratio=ratio, overlap=overlap) for head in probs]
            assert torch.equal(batched.image, torch.stack([head.image for head in looped]))
            assert torch.equal(batched.cluster, torch.stack([head.cluster for head in looped]))
    torch.testing.assert_close(
        estep.prototypes(features, probs, per_cluster=4),
        torch.stack([estep.prototypes(features, head, per_cluster=4) for head in probs]),
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), clusters=st.integers(1, 6), extra=st.integers(0, 25), heads=st.integers(1, 3))
@both_versions
def test_every_cluster_labels_m_over_k_distinct_images_nearest_first(
    estep: EStep, seed: int, clusters: int, extra: int, heads: int
) -> None:
    images = clusters + extra
    features, probs = random_batch(seed, images=images, clusters=clusters, heads=heads)
    labels = estep.labels(features, probs)
    share = images // clusters
    assert labels.image.shape == labels.cluster.shape == (heads, clusters * share)
    assert labels.image.dtype == labels.cluster.dtype == torch.int64
    centers = estep.prototypes(features, probs, per_cluster=share)
    similarity = torch.nn.functional.cosine_similarity(features, centers.unsqueeze(dim=2), dim=3)  # (H, K, M)
    for head in range(heads):
        for cluster, chosen in enumerate(by_cluster(labels.image[head], clusters)):
            assert len(set(chosen)) == share
            chosen_similarity = similarity[head, cluster, chosen]
            assert (chosen_similarity.diff() <= 1e-12).all()
            rest = [i for i in range(images) if i not in chosen]
            assert not rest or similarity[head, cluster, rest].max() <= chosen_similarity.min() + 1e-12


def assigned_once(similarity: list[list[float]], count: int) -> list[list[int]]:
    """Non-overlap assignment by the book: of all pairs that are still possible take the nearest, until none is left."""
    chosen: list[list[int]] = [[] for _ in similarity]
    images = set(range(len(similarity[0])))
    while possible := [
        (-similarity[k][i], k, i) for k, taken in enumerate(chosen) if len(taken) < count for i in sorted(images)
    ]:
        _, cluster, image = min(possible)
        chosen[cluster].append(image)
        images.remove(image)
    return chosen


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31), clusters=st.integers(1, 6), extra=st.integers(0, 15), ratio=st.sampled_from([1, 0.5])
)
@both_versions
def test_without_overlap_the_nearest_pairs_are_taken_first(
    estep: EStep, seed: int, clusters: int, extra: int, ratio: float
) -> None:
    images = clusters + extra
    features, probs = random_batch(seed, images=images, clusters=clusters, width=2)
    single = estep.labels(features, probs, center_ratio=ratio, overlap=False)
    centers, _ = paper_labels(features, probs, ratio)
    similarity = [[cosine(row, center) for row in features.tolist()] for center in centers]
    expected = assigned_once(similarity, images // clusters)
    # In two dimensions images lie on few sides of a center: equal up to rounding only if the similarities agree.
    found = by_cluster(single.image, clusters)
    assert [[round(similarity[k][i], 9) for i in row] for k, row in enumerate(found)] == [
        [round(similarity[k][i], 9) for i in row] for k, row in enumerate(expected)
    ]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), clusters=st.integers(1, 8), extra=st.integers(0, 40), tied=st.booleans())
@both_versions
def test_without_overlap_every_cluster_still_labels_m_over_k_images_and_none_is_labeled_twice(
    estep: EStep, seed: int, clusters: int, extra: int, tied: bool
) -> None:
    images = clusters + extra
    features, probs = random_batch(seed, images=images, clusters=clusters, heads=2, width=2)
    single = estep.labels(features.round() if tied else features, probs, overlap=False)
    share = images // clusters
    assert single.cluster.tolist() == [[k for k in range(clusters) for _ in range(share)]] * 2
    assert all(len(set(head)) == clusters * share for head in single.image.tolist())


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), overlap=st.booleans())
@both_versions
def test_renaming_clusters_renames_labels_and_nothing_else(estep: EStep, seed: int, overlap: bool) -> None:
    features, probs = random_batch(seed, clusters=4)
    names = torch.randperm(4, generator=torch.Generator().manual_seed(seed))
    labels = estep.labels(features, probs, overlap=overlap)
    renamed = estep.labels(features, probs[:, names], overlap=overlap)
    for new, old in enumerate(names.tolist()):
        assert by_cluster(renamed.image, 4)[new] == by_cluster(labels.image, 4)[old]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), scale=st.floats(1e-3, 1e3))
@both_versions
def test_permuting_the_batch_permutes_and_scaling_features_changes_nothing(
    estep: EStep, seed: int, scale: float
) -> None:
    features, probs = random_batch(seed)
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))
    labels = estep.labels(features, probs)
    assert torch.equal(order[estep.labels(features[order], probs[order]).image], labels.image)
    assert torch.equal(estep.labels(features * scale, probs).image, labels.image)


@both_versions
def test_each_head_owns_its_labels(estep: EStep) -> None:
    features, probs = random_batch(0, images=3, clusters=3, heads=2)
    labels = estep.labels(features, probs)
    labels.cluster[0] = IGNORE
    assert labels.cluster[1].tolist() == [0, 1, 2]


@both_versions
def test_of_equally_confident_images_the_first_make_the_prototype(estep: EStep) -> None:
    features = torch.arange(8.0).unsqueeze(dim=1)
    sure = torch.tensor(
        [[0.5, 0.5], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]]
    )
    centers = estep.prototypes(features, sure, per_cluster=3)
    torch.testing.assert_close(centers, torch.tensor([[(1 + 2 + 3) / 3], [(6 + 7 + 0) / 3]]))


@both_versions
def test_a_tie_in_one_cluster_is_broken_where_another_has_none(estep: EStep) -> None:
    probs = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.2, 0.3], [0.5, 0.1, 0.4]])  # all equal, the first, the last
    centers = estep.prototypes(torch.tensor([[1.0], [2.0], [4.0]]), probs, per_cluster=1)
    assert centers.flatten().tolist() == [1, 1, 4]


@both_versions
def test_of_equally_near_images_the_first_are_labeled_in_order(estep: EStep) -> None:
    features = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [0.0, 2.0], [3.0, 0.0], [4.0, 0.0]])
    probs = torch.tensor([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5], [0.4, 0.6], [0.5, 0.5], [0.5, 0.5]])
    labels = estep.labels(features, probs, center_ratio=0.5)
    assert by_cluster(labels.image, 2) == [
        [1, 2, 4],
        [0, 3, 1],
    ]  # of the four on one ray, and of the four at a right angle


@both_versions
def test_identical_images_and_predictions_are_taken_in_batch_order_by_every_cluster(estep: EStep) -> None:
    labels = estep.labels(torch.ones(9, 2), torch.full((9, 3), 1 / 3))
    assert by_cluster(labels.image, 3) == [[0, 1, 2]] * 3
    single = estep.labels(torch.ones(9, 2), torch.full((9, 3), 1 / 3), overlap=False)
    assert by_cluster(single.image, 3) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]  # equally near: the first cluster first


@pytest.mark.parametrize(("scale", "dtype"), [(1e-30, torch.float32), (1e30, torch.float32), (3e4, torch.float16)])
@both_versions
def test_features_of_extreme_scale_give_the_same_labels(estep: EStep, scale: float, dtype: torch.dtype) -> None:
    features, probs = toy()
    labels = estep.labels(features.to(dtype) * scale, probs.to(dtype))
    assert [sorted(images) for images in by_cluster(labels.image, 3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@both_versions
def test_an_image_of_zeros_is_near_to_nothing(estep: EStep, dtype: torch.dtype) -> None:
    features = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 0.1], [0.0, 1.0]], dtype=dtype)
    probs = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.8, 0.2], [0.1, 0.9]], dtype=dtype)
    assert by_cluster(estep.labels(features, probs, center_ratio=0.5).image, 2) == [[1, 2], [3, 2]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@both_versions
def test_coarser_numbers_give_the_same_labels_where_nothing_is_close(estep: EStep, dtype: torch.dtype) -> None:
    features, probs = toy()
    labels = estep.labels(features.to(dtype), probs.to(dtype))
    assert [sorted(images) for images in by_cluster(labels.image, 3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert estep.prototypes(features.to(dtype), probs.to(dtype), per_cluster=3).dtype == dtype


@pytest.mark.parametrize("per_cluster", [1, 4, 9, 29, 30])
@both_versions
def test_numbers_as_runs_have_them_mark_the_same_images_ties_and_all(estep: EStep, per_cluster: int) -> None:
    features, probs = random_batch(3, heads=2)
    features = features.mul(4).round()  # so that sums are exact in both
    probs = torch.tensor([[0.5, 0.25, 0.25]]).double().expand(2, 30, 3).gather(2, probs.argsort(dim=2))  # many equals
    found = estep.prototypes(features.float(), probs.float(), per_cluster=per_cluster)
    torch.testing.assert_close(
        found.double(), estep.prototypes(features, probs, per_cluster=per_cluster), rtol=0, atol=1e-5
    )


@both_versions
def test_half_precision_prototypes_of_large_features_do_not_overflow(estep: EStep) -> None:
    probs = torch.tensor([[1.0, 0.0]]).repeat(3000, 1)
    centers = estep.prototypes(torch.full((3000, 2), 100.0).half(), probs.half(), per_cluster=3000)
    torch.testing.assert_close(centers, torch.full((2, 2), 100.0).half(), rtol=2e-3, atol=0)


@pytest.mark.parametrize("case", ["small", "medium", "many"])
@pytest.mark.parametrize(("name", "center_ratio"), [("half", 0.5), ("full", 1.0)])
@both_versions
def test_labels_and_losses_equal_those_of_the_authors_code(
    estep: EStep, shared_data: Path, case: str, name: str, center_ratio: float
) -> None:
    reference = np.load(shared_data / "reference_estep.npz")
    features, probs = (torch.from_numpy(reference[f"{case}_{what}"]) for what in ("features", "probs"))
    expected = torch.from_numpy(reference[f"{case}_images_{name}"]).long()  # (H, K, T)
    labels = estep.labels(features, probs, center_ratio=center_ratio)
    # As sets: similarities tie, or nearly so, and the order among equals is nobody's.
    assert torch.equal(labels.image.view(expected.shape).sort(dim=2).values, expected.sort(dim=2).values)
    logits = probs.log().gather(1, labels.image.unsqueeze(dim=2).expand(-1, -1, probs.shape[2]))
    losses = double_softmax_cross_entropy(logits, labels.cluster)
    torch.testing.assert_close(losses.double(), torch.from_numpy(reference[f"{case}_loss_{name}"]), rtol=0, atol=1e-5)
