"""The probability of each group for each image, after corrections: the E-step of learning from them.

It combines three sources: logistic regression on the labeled images, label spreading on the neighbor graph, and the
former groups. How far to trust the former groups is learned. Each part of a former group is treated as the label of an
annotator who errs at rates P(part | group), which EM estimates from all images (Dawid and Skene 1979). So the former
groups count more where the other two sources agree with them.

Shapes: N images, L labeled images, R components, G groups, C parts of former groups.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from spice.stages.groups.corrections import Corrections
from spice.stages.groups.label_spreading import NeighborGraph, spread_labels

# Weight of a typical image, which a person has seen but not placed. The weight of a placed image is 1.
TYPICAL_WEIGHT = 0.2
# P(part | group) starts as if this many images of each group had been seen in random parts.
PRIOR = 30.0
ROUNDS = 10
# No source excludes a group: lower bounds on its probabilities.
MIN_CLASSIFIER_PROB, MIN_GRAPH_PROB = 1e-6, 1e-3

Probs = NDArray[np.float32]  # (N, G)


class LabeledImages(NamedTuple):
    """The fixed and the typical images, with weights."""

    row: NDArray[np.int64]  # (L,)
    group: NDArray[np.int64]  # (L,)
    weight: NDArray[np.float32]  # (L,)


def group_probs(inputs: NDArray[np.float32], graph: NeighborGraph, corrections: Corrections) -> Probs:
    """P(group | image) from inputs (N, R): (N, G), rows sum to 1."""
    labeled = labeled_images(corrections)
    if not len(labeled.row):  # only pairs and rejections: all groups are equally likely
        return np.full((len(inputs), len(corrections.numbers)), 1 / len(corrections.numbers), dtype=np.float32)
    evidence = np.log(_by_classifier(inputs, labeled, len(corrections.numbers)))
    evidence += np.log(_by_graph(graph, labeled, len(corrections.numbers)))
    set_aside = np.flatnonzero(corrections.aside >= 0)
    evidence[:, corrections.aside_groups] = -np.inf
    evidence[set_aside] = -np.inf
    evidence[set_aside, corrections.aside[set_aside]] = 0
    evidence[corrections.rejected[:, 0], corrections.rejected[:, 1]] = -np.inf
    evidence[corrections.fixed] = -np.inf
    evidence[corrections.fixed, corrections.fixed_group] = 0
    # The more images a person has placed, the less the former groups count.
    trust = len(corrections.typical) / len(labeled.row)
    return with_former_groups(evidence, corrections.part, trust=trust)


def with_former_groups(evidence: Probs, part: NDArray[np.int64], *, trust: float) -> Probs:
    """P(group | image) by EM over P(part | group), from log-evidence (N, G) and the part (N,) of each image; -1: none.

    P(group | image) is proportional to exp(evidence) P(part | group)^trust.
    """
    probs = _normalized(evidence)
    inside = np.flatnonzero(part >= 0)
    if not len(inside):
        return probs
    parts, place = np.unique(part[inside], return_inverse=True)
    for _ in range(ROUNDS):
        counts = np.full((len(parts), evidence.shape[1]), PRIOR / len(parts))  # (C, G)
        np.add.at(counts, place, probs[inside])
        log_rates = np.log(counts / counts.sum(axis=0, keepdims=True)).astype(np.float32)  # ln P(part | group)
        probs[inside] = _normalized(evidence[inside] + trust * log_rates[place])
    return probs


def labeled_images(corrections: Corrections) -> LabeledImages:
    """The fixed images, then the typical ones."""
    return LabeledImages(
        np.concatenate([corrections.fixed, corrections.typical]),
        np.concatenate([corrections.fixed_group, corrections.typical_group]),
        np.repeat(np.array([1, TYPICAL_WEIGHT], np.float32), [len(corrections.fixed), len(corrections.typical)]),
    )


def _by_classifier(inputs: NDArray[np.float32], labeled: LabeledImages, groups: int) -> Probs:
    """P(group | image) by logistic regression."""
    probs = np.zeros((len(inputs), groups), dtype=np.float32)
    known = np.unique(labeled.group)
    if len(known) > 1:
        model = LogisticRegression(max_iter=500)
        model.fit(inputs[labeled.row], labeled.group, sample_weight=labeled.weight)
        probs[:, known] = model.predict_proba(inputs)
    else:
        probs[:, known] = 1
    return np.maximum(probs, MIN_CLASSIFIER_PROB)


def _by_graph(graph: NeighborGraph, labeled: LabeledImages, groups: int) -> Probs:
    """P(group | image) by label spreading."""
    labels = np.zeros((len(graph.neighbors), groups), dtype=np.float32)
    labels[labeled.row, labeled.group] = labeled.weight
    return np.maximum(spread_labels(graph, labels), MIN_GRAPH_PROB)


def _normalized(scores: Probs) -> Probs:
    """Softmax over groups. A row in which all groups are excluded (-inf) is zero."""
    highest = scores.max(axis=1, keepdims=True)
    probs = np.exp(scores - np.where(np.isfinite(highest), highest, 0))
    total = probs.sum(axis=1, keepdims=True)
    return np.asarray(probs / np.where(total > 0, total, 1), dtype=np.float32)
