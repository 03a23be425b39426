"""The paper's equations: pure functions on tensors, which need torch and nothing else."""

from spice.core.fast_prototypes import prototype_table
from spice.core.losses import (
    cross_entropy,
    double_softmax_cross_entropy,
    double_softmax_ratio,
    info_nce,
    joint_loss,
    negative_entropy,
    size_divergence,
    temperature_cross_entropy,
)
from spice.core.momentum import ema_update_, enqueue_
from spice.core.prototypes import IGNORE, PseudoLabels, prototype_labels, prototypes
from spice.core.reliability import authors_reliable, consistency_labels, consistency_ratio, reliable

__all__ = [
    "IGNORE",
    "PseudoLabels",
    "authors_reliable",
    "consistency_labels",
    "consistency_ratio",
    "cross_entropy",
    "double_softmax_cross_entropy",
    "double_softmax_ratio",
    "ema_update_",
    "enqueue_",
    "info_nce",
    "joint_loss",
    "negative_entropy",
    "prototype_labels",
    "prototype_table",
    "prototypes",
    "reliable",
    "size_divergence",
    "temperature_cross_entropy",
]
