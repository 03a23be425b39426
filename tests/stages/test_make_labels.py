"""The table of labels: cluster, margin, reliability, rank."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from spice.core import prototypes
from spice.settings import ReliabilitySettings
from spice.stages.labels import ImageFlags, make_labels, prototype_rank

ASK_TWO = ReliabilitySettings(neighbors=2)
NO_FLAGS = ImageFlags(np.zeros(40, dtype=np.bool_), np.full(40, -1))


@pytest.fixture
def features() -> torch.Tensor:
    return torch.randn(40, 6, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def probs() -> torch.Tensor:
    return torch.randn(40, 3, generator=torch.Generator().manual_seed(1)).softmax(dim=1)


def test_every_column_follows_from_the_probabilities(features: torch.Tensor, probs: torch.Tensor) -> None:
    neighbors = torch.tensor([[(i + 1) % 40, (i + 2) % 40, (i + 3) % 40] for i in range(40)])
    flags = ImageFlags(np.arange(40) == 3, np.where(np.arange(40) == 5, 7, -1))
    found = make_labels([f"{i}.png" for i in range(40)], features, probs, neighbors, ASK_TWO, flags=flags)
    assert [i for i in range(40) if found.outlier[i]] == [3]
    assert {i: path for i, path in enumerate(found.duplicate_of) if path} == {5: "7.png"}
    for i, row in enumerate(probs.tolist()):
        order = sorted(range(3), key=lambda k: -row[k])
        assert found.cluster[i] == order[0]
        assert found.nearest_other_cluster[i] == order[1]
        assert found.confidence[i] == pytest.approx(row[order[0]])
        assert found.margin[i] == pytest.approx(row[order[0]] - row[order[1]])
        agreeing = sum(found.cluster[(i + step) % 40] == found.cluster[i] for step in (1, 2))
        assert found.reliability[i] == agreeing / 2
        assert found.chance[i] == pytest.approx((agreeing + 1 / 3) / 3)
        assert found.reliable[i] == (agreeing == 2)


def test_rank_counts_the_images_of_the_same_cluster_that_are_nearer(
    features: torch.Tensor, probs: torch.Tensor
) -> None:
    cluster = probs.argmax(dim=1)
    centers = prototypes(features, probs, per_cluster=40 // 3)
    rank = prototype_rank(features, probs, cluster)
    similarity = [float(F.cosine_similarity(features[i], centers[cluster[i]], dim=0)) for i in range(40)]
    for i in range(40):
        nearer = [j for j in range(40) if cluster[j] == cluster[i] and similarity[j] > similarity[i]]
        assert rank[i] == len(nearer)


def test_ranks_of_a_cluster_are_all_different_even_among_copies(probs: torch.Tensor) -> None:
    cluster = probs.argmax(dim=1)
    rank = prototype_rank(torch.ones(40, 6), probs, cluster)
    for k in range(3):
        assert sorted(rank[cluster == k].tolist()) == list(range(int((cluster == k).sum())))


def test_columns_have_the_dtypes_of_the_table(features: torch.Tensor, probs: torch.Tensor) -> None:
    neighbors = torch.arange(40).roll(1)[:, None].repeat(1, 2)
    found = make_labels([""] * 40, features, probs, neighbors, ASK_TWO, flags=NO_FLAGS)
    assert [column.dtype for column in found[1:-1]] == [
        np.dtype(kind) for kind in ("int32", *["float32"] * 4, "bool", "int32", "int32", "bool")
    ]
