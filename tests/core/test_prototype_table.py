"""Pseudo-labels as a table are the labels of the pairs, with the same losses and gradients."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
import torch
from test_losses import STAGE_2_LOSSES, Loss, random  # type: ignore[import-not-found]  # a test beside this one
from test_prototypes import random_batch  # type: ignore[import-not-found]
from torch import Tensor

from spice.core import PseudoLabels, cross_entropy, negative_entropy, prototype_labels, prototype_table
from spice.core.fast_prototypes import nearest_labels, nearest_table


class Labeling(NamedTuple):
    """The same labels as a table and as pairs."""

    table: Callable[[Tensor, Tensor], Tensor]
    pairs: Callable[[Tensor, Tensor], PseudoLabels]


LABELINGS = {
    "even": Labeling(prototype_table, prototype_labels),
    "no overlap": Labeling(partial(prototype_table, overlap=False), partial(prototype_labels, overlap=False)),
    "nearest": Labeling(nearest_table, nearest_labels),
}


def counted(labels: PseudoLabels, images: int, clusters: int) -> list[list[float]]:
    """How often one head's pairs name an image with a cluster, in a loop."""
    table = [[0.0] * clusters for _ in range(images)]
    for image, cluster in zip(labels.image.tolist(), labels.cluster.tolist(), strict=True):
        table[image][cluster] += 1
    return table


def rough(probs: Tensor) -> Tensor:
    """Probabilities among which many are equal."""
    levels = (probs * 4).round() + 0.1
    return levels / levels.sum(dim=-1, keepdim=True)


@pytest.mark.parametrize("labeling", LABELINGS.values(), ids=LABELINGS)
@pytest.mark.parametrize("change", [lambda probs: probs, rough], ids=["as drawn", "ties"])
def test_the_table_counts_the_pairs(labeling: Labeling, change: Callable[[Tensor], Tensor]) -> None:
    features, probs = random_batch(3, images=41, clusters=4, heads=3)
    probs = change(probs)
    together = labeling.table(features, probs)
    assert together.shape == (3, 41, 4)
    for head in range(3):
        assert together[head].tolist() == counted(labeling.pairs(features, probs[head]), 41, 4)
        assert labeling.table(features, probs[head]).equal(together[head])


def test_an_image_has_all_its_labels_or_at_most_one() -> None:
    features, probs = random_batch(0, images=60, clusters=5, heads=2)
    table, alone = prototype_table(features, probs), prototype_table(features, probs, overlap=False)
    assert table.sum(dim=1).eq(12).all()
    assert table.sum(dim=2).max() > 1
    assert alone.sum(dim=1).eq(12).all()
    assert alone.sum(dim=2).eq(1).all()  # 5 * 12 labels for 60 images


@pytest.mark.parametrize("loss", STAGE_2_LOSSES)
@pytest.mark.parametrize("labeling", LABELINGS.values(), ids=LABELINGS)
def test_a_loss_and_its_gradient_are_those_of_the_pairs(loss: Loss, labeling: Labeling) -> None:
    features, probs = random_batch(2, images=40, clusters=4, heads=3)
    logits = random(7, 3, 40, 4).requires_grad_()
    pairs = labeling.pairs(features, probs)
    one_by_one = torch.stack([loss(logits[head][pairs.image[head]], pairs.cluster[head]) for head in range(3)])
    at_once = loss(logits, labeling.table(features, probs))
    torch.testing.assert_close(at_once, one_by_one)
    weight = random(8, 3)
    (expected,) = torch.autograd.grad((one_by_one * weight).sum(), logits)
    (found,) = torch.autograd.grad((at_once * weight).sum(), logits)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("loss", STAGE_2_LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_loss_has_the_logits_dtype(loss: Loss, dtype: torch.dtype) -> None:
    features, probs = random_batch(2, images=40, clusters=4)
    assert loss(random(7, 40, 4).to(dtype), prototype_table(features, probs)).dtype == dtype


@pytest.mark.parametrize("loss", STAGE_2_LOSSES)
def test_a_head_without_labels_loses_nothing_while_others_learn(loss: Loss) -> None:
    labels = torch.eye(3).repeat(2, 2, 1)  # (2, 6, 3)
    labels[0] = 0
    losses = loss(random(4, 2, 6, 3), labels)
    assert losses[0] == 0
    assert losses[1] > 0


def test_a_table_without_a_label_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="nothing to learn from: none of 8 images has a label"):
        cross_entropy(random(0, 2, 4, 3), torch.zeros(2, 4, 3))


def test_a_table_that_does_not_match_the_logits_is_refused() -> None:
    with pytest.raises(RuntimeError, match="size of tensor"):
        cross_entropy(random(0, 2, 4, 3), torch.ones(2, 3, 4))


def test_the_entropy_counts_an_image_by_its_weight() -> None:
    probs = random(6, 2, 4, 3).softmax(dim=2)
    weight = torch.tensor([[0.0, 1.0, 2.0, 1.0], [1.0, 0.0, 0.0, 3.0]], dtype=torch.float64)
    repeated = [probs[head].repeat_interleave(weight[head].long(), dim=0) for head in range(2)]
    expected = torch.stack([negative_entropy(some) for some in repeated])
    torch.testing.assert_close(negative_entropy(probs, weight), expected)
    torch.testing.assert_close(negative_entropy(probs[1], weight[1]), expected[1])
    torch.testing.assert_close(negative_entropy(probs, torch.ones(2, 4, dtype=torch.float64)), negative_entropy(probs))
