"""The labels of the E-step follow the settings, as a table and as pairs."""

from typing import Any

import pytest
import torch

from spice.core import IGNORE, prototype_labels
from spice.core.fast_prototypes import nearest_labels
from spice.settings import HeadSettings
from spice.stages.heads.losses import label_pairs, label_table


@pytest.mark.parametrize(
    "changes",
    [{}, {"overlap": False}, {"center_ratio": 0.25}, {"sizes": "nearest"}, {"sizes": "found", "evenness": 0.7}],
    ids=str,
)
def test_the_table_and_the_pairs_have_the_labels_of_the_settings(changes: dict[str, Any]) -> None:
    randomness = torch.Generator().manual_seed(0)
    features = torch.randn(60, 4, generator=randomness, dtype=torch.float64)
    probs = torch.randn(3, 60, 4, generator=randomness, dtype=torch.float64).softmax(dim=2)
    settings = HeadSettings(clusters=4, **changes)
    pairs = label_pairs(features, probs, settings)
    if "sizes" in changes:
        expected = nearest_labels(features, probs, evenness=0.7 if changes["sizes"] == "found" else 0.0)
    else:
        expected = prototype_labels(features, probs, **changes)
    assert torch.equal(pairs.image, expected.image)
    assert torch.equal(pairs.cluster, expected.cluster)
    counts = torch.zeros(3, 60, 4)
    for head, image, cluster in zip(range(3), pairs.image, pairs.cluster, strict=True):
        kept = cluster != IGNORE
        counts[head].index_put_((image[kept], cluster[kept]), torch.ones(()), accumulate=True)
    assert torch.equal(label_table(features, probs, settings), counts)
