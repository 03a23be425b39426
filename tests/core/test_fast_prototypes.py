"""The fast E-step gives the labels of the paper's, to the last tie."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_prototypes import random_batch  # type: ignore[import-not-found]  # a test beside this one

from spice.core import prototype_labels, prototypes
from spice.core.fast_prototypes import fast_prototype_labels, fast_prototypes


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    clusters=st.integers(1, 6),
    extra=st.integers(0, 40),
    heads=st.sampled_from([None, 1, 3]),
    center_ratio=st.sampled_from([1.0, 0.5, 0.1]),
    overlap=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    tied=st.booleans(),
)
def test_fast_labels_are_the_papers_ties_and_all(
    seed: int,
    clusters: int,
    extra: int,
    heads: int | None,
    center_ratio: float,
    overlap: bool,
    dtype: torch.dtype,
    tied: bool,
) -> None:
    images = clusters + extra
    features, probs = random_batch(seed, images=images, clusters=clusters, heads=heads)
    # Whole numbers, the largest a power of two: every sum and the rescaling are exact, so that both versions see the
    # same similarities. Where tied, few of them, and few different probabilities.
    features = features.round() if tied else (64 * features).round()
    features[0, 0] = features.abs().max().log2().ceil().exp2()
    if tied:
        probs = (probs * 3).round() + 1
        probs = probs / probs.sum(dim=-1, keepdim=True)
    features, probs = features.to(dtype), probs.to(dtype)
    plain = prototype_labels(features, probs, center_ratio=center_ratio, overlap=overlap)
    fast = fast_prototype_labels(features, probs, center_ratio=center_ratio, overlap=overlap)
    assert torch.equal(fast.image, plain.image)
    assert torch.equal(fast.cluster, plain.cluster)
    torch.testing.assert_close(
        fast_prototypes(features, probs, per_cluster=max(1, extra)),
        prototypes(features, probs, per_cluster=max(1, extra)),
        rtol=0,
        atol=0,
    )
