"""New tensors go where their inputs are: with `meta` as the default device, one that does not is found at once."""

import torch
from torch import nn

from spice import core
from spice.core.fast_prototypes import fast_prototype_labels, fast_prototypes, nearest_labels, nearest_table


def test_no_function_of_the_core_makes_a_tensor_on_the_default_device() -> None:
    features, logits = torch.randn(8, 4), torch.randn(2, 8, 3)
    probs, labels = logits.softmax(dim=2), torch.randint(3, (2, 8))
    neighbors, queue = torch.randint(8, (8, 2)), torch.randn(5, 4)
    average, current = nn.Linear(2, 2), nn.Linear(2, 2)
    with torch.device("meta"):
        core.ema_update_(average, current, momentum=0.9)
        core.enqueue_(queue, features[:2], 4)
        results = [
            core.prototypes(features, probs, per_cluster=2),
            fast_prototypes(features, probs, per_cluster=2),
            *core.prototype_labels(features, probs),
            *core.prototype_labels(features, torch.full_like(probs, 1 / 3), overlap=False),  # ties
            *fast_prototype_labels(features, torch.full_like(probs, 1 / 3), overlap=False),
            *nearest_labels(features, probs),
            nearest_table(features, probs),
            core.prototype_table(features, torch.full_like(probs, 1 / 3), overlap=False),
            core.cross_entropy(logits, probs),
            core.info_nce(features, features, queue),
            core.cross_entropy(logits, labels),
            core.double_softmax_cross_entropy(logits, labels),
            core.temperature_cross_entropy(logits, labels, temperature=0.2),
            core.negative_entropy(probs),
            core.joint_loss(logits[0], labels[0], logits[1], labels[1]),
            core.double_softmax_ratio(logits[0, 0], 1),
            core.consistency_ratio(labels[0], neighbors),
            core.reliable(torch.full_like(features, 0.5)),
            core.consistency_labels(probs),
        ]
    assert torch.equal(queue[[4, 0]], features[:2])
    assert {result.device.type for result in results} == {"cpu"}
