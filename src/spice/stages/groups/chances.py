"""How likely each image is to belong to each group, after corrections: the E-step of learning from them.

Three sources vote: a logistic regression on the labeled images, labels spread over the neighbor graph, and the groups
as they were before. How far to trust the former groups is learned. Each part of a former group is treated as a label by
an annotator who errs at rates P(part | group), which EM estimates from all images (Dawid and Skene 1979). The former
groups count for much where the classifier agrees with them, and for little where it does not.

Shapes: N images, L labeled images, R components, G groups, C parts of former groups.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from spice.stages.groups.lessons import Lessons
from spice.stages.groups.spread import Near, spread_labels

# A typical image was seen, but not placed by hand: it counts a fifth as much as one that was.
TYPICAL_WEIGHT = 0.2
# P(part | group) starts as if this many images of each group had been seen in random parts.
PRIOR = 30.0
ROUNDS = 10
# No source rules a group out: no chance is below this.
LEAST_BY_CLASSIFIER, LEAST_BY_GRAPH = 1e-6, 1e-3

Chances = NDArray[np.float32]  # (N, G)


class LabeledImages(NamedTuple):
    """The images that are fixed or typical, and how much each counts."""

    row: NDArray[np.int64]  # (L,)
    group: NDArray[np.int64]  # (L,)
    weight: NDArray[np.float32]  # (L,)


def group_chances(inputs: NDArray[np.float32], near: Near, lessons: Lessons) -> Chances:
    """How likely each image is to belong to each group, from inputs (N, R): rows sum to 1."""
    labeled = labeled_images(lessons)
    if not len(labeled.row):  # only pairs and rejections: all groups are equally likely
        return np.full((len(inputs), len(lessons.numbers)), 1 / len(lessons.numbers), dtype=np.float32)
    out = np.flatnonzero(lessons.aside >= 0)
    evidence = np.log(_by_classifier(inputs, labeled, len(lessons.numbers)))
    evidence += np.log(_by_graph(near, labeled, len(lessons.numbers)))
    evidence[:, lessons.aside_groups] = -np.inf
    evidence[out] = -np.inf
    evidence[out, lessons.aside[out]] = 0
    evidence[lessons.rejected[:, 0], lessons.rejected[:, 1]] = -np.inf
    evidence[lessons.fixed] = -np.inf
    evidence[lessons.fixed, lessons.fixed_group] = 0
    # The more images a person has placed, the less the former groups count beside them.
    trust = len(lessons.typical) / len(labeled.row)
    return with_former_groups(evidence, lessons.part, trust=trust)


def with_former_groups(evidence: Chances, part: NDArray[np.int64], *, trust: float) -> Chances:
    """EM for P(part | group), from log-evidence (N, G) and the part (N,) of each image; -1: in no part.

    P(group | image) is proportional to exp(evidence) P(part | group)^trust.
    """
    chances = _normalized(evidence)
    inside = np.flatnonzero(part >= 0)
    if not len(inside):
        return chances
    parts, place = np.unique(part[inside], return_inverse=True)
    for _ in range(ROUNDS):
        counts = np.full((len(parts), evidence.shape[1]), PRIOR / len(parts))  # (C, G)
        np.add.at(counts, place, chances[inside])
        vote = np.log(counts / counts.sum(axis=0, keepdims=True)).astype(np.float32)
        chances[inside] = _normalized(evidence[inside] + trust * vote[place])
    return chances


def labeled_images(lessons: Lessons) -> LabeledImages:
    """The fixed images, then the typical ones."""
    return LabeledImages(
        np.concatenate([lessons.fixed, lessons.typical]),
        np.concatenate([lessons.fixed_group, lessons.typical_group]),
        np.repeat(np.array([1, TYPICAL_WEIGHT], np.float32), [len(lessons.fixed), len(lessons.typical)]),
    )


def _by_classifier(inputs: NDArray[np.float32], labeled: LabeledImages, groups: int) -> Chances:
    """P(group | image) by logistic regression."""
    found = np.zeros((len(inputs), groups), dtype=np.float32)
    known = np.unique(labeled.group)
    if len(known) > 1:
        model = LogisticRegression(max_iter=500)
        model.fit(inputs[labeled.row], labeled.group, sample_weight=labeled.weight)
        found[:, known] = model.predict_proba(inputs)
    else:
        found[:, known] = 1
    return np.maximum(found, LEAST_BY_CLASSIFIER)


def _by_graph(near: Near, labeled: LabeledImages, groups: int) -> Chances:
    """P(group | image) by labels spread over the neighbor graph."""
    labels = np.zeros((len(near.neighbors), groups), dtype=np.float32)
    labels[labeled.row, labeled.group] = labeled.weight
    return np.maximum(spread_labels(near, labels), LEAST_BY_GRAPH)


def _normalized(scores: Chances) -> Chances:
    """exp(scores), rows divided by their sum; a row in which everything is ruled out is zero."""
    highest = scores.max(axis=1, keepdims=True)
    found = np.exp(scores - np.where(np.isfinite(highest), highest, 0))
    total = found.sum(axis=1, keepdims=True)
    return np.asarray(found / np.where(total > 0, total, 1), dtype=np.float32)
