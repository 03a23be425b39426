"""What the page shows of groups: a card for each, pairs that may be one, and groups by their similarity to images.

Shapes: N images, S neighbors, G groups, D feature width.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from spice.report.colors import colors
from spice.report.verdict import CONFUSED_SHARE
from spice.runs.suggested_names import suggest_names
from spice.trust.evidence import neighbor_votes, similar_groups
from spice.trust.vectors import unit_length
from spice.web.session import State

PICTURES_SHOWN = 8
MOST_SUGGESTIONS, PAIRS_SHOWN = 4, 4
MOST_COMPARED = 64  # images that groups are compared with
_MEMBERS, _ALL_MEMBERS = 64, 8192  # members that stand for a group, and for all groups together
_NEAREST = 3  # members of a group that an image is compared with
_VOTERS = 100_000  # to suggest merges, about this many images are enough


def cards(state: State) -> list[JsonValue]:
    """One entry per group, in the order of their numbers."""
    groups, labels = state.groups, state.opened.labels
    suggested = suggest_names(state.opened.words, groups)
    tints = colors(max(groups.existing) + 1) if groups.existing else []
    order = np.argsort(labels.prototype_rank, kind="stable")
    by_group = order[np.argsort(groups.group[order], kind="stable")]
    borders = np.searchsorted(groups.group[by_group], [*groups.existing, max(groups.existing, default=0) + 1])
    found: list[JsonValue] = []
    for place, number in enumerate(groups.existing):
        members = by_group[borders[place] : borders[place + 1]]
        members = members[groups.group[members] == number]
        found.append(
            {
                "number": number,
                "name": groups.names.get(number, ""),
                "suggested": suggested.get(number, ""),
                "size": len(members),
                "chance": float(state.checks.chances[members].mean()) if len(members) else 0.0,
                "aside": number in groups.set_aside,
                "by_person": int(groups.by_person[members].sum()),
                "colors": list(tints[number]),
                "typical": _spread(members).tolist(),
                "doubtful": _doubtful(state, members).tolist(),
            }
        )
    return found


def _spread(members: NDArray[np.int64]) -> NDArray[np.int64]:
    """The most typical image, and others evenly spaced through the more typical half."""
    half = members[: max(PICTURES_SHOWN, len(members) // 2)]
    places = np.linspace(0, max(0, len(half) - 1), min(PICTURES_SHOWN, len(half))).round().astype(np.int64)
    return half[np.unique(places)]


def _doubtful(state: State, members: NDArray[np.int64]) -> NDArray[np.int64]:
    """The images to look at first: neither reliable nor placed by a person, lowest chance first."""
    doubtful = members[~state.groups.by_person[members] & ~state.opened.labels.reliable[members]]
    chance = state.checks.chances[doubtful]
    return doubtful[np.argsort(chance, kind="stable")][:PICTURES_SHOWN]


class Suggestion(NamedTuple):
    """Two groups that may be one."""

    first: int
    second: int
    share: float  # of the neighbors of either group's images that are in the other
    pairs: list[tuple[int, int, float]]  # rows of the most similar images across the two, and their similarity


def suggested_merges(state: State) -> list[Suggestion]:
    """The pairs of groups whose images are most often neighbors, with their most similar images."""
    group, existing = state.groups.shown, state.groups.existing
    neighbors = state.opened.result.neighbors[:, : state.opened.result.answer.neighbors]
    every = max(1, len(group) // _VOTERS)
    votes = neighbor_votes(group, neighbors, max(existing, default=0) + 1, every=every)
    found = similar_groups(votes, CONFUSED_SHARE)[:MOST_SUGGESTIONS]
    return [Suggestion(first, second, share, _pairs(state, first, second)) for first, second, share in found]


def most_similar_groups(state: State, rows: list[int]) -> list[int]:
    """The groups most similar to some images, most similar first; the images themselves count in no group.

    Similarity is the sum of two: of the mean image to the group's mean, and of each image to the nearest members.
    Members evenly spaced from the most to the least typical stand for a large group.
    """
    features, labels, group = state.opened.result.answer_features, state.opened.labels, state.groups.shown.copy()
    group[rows] = -1
    numbers = np.unique(group[group >= 0])
    count = min(_MEMBERS, max(1, _ALL_MEMBERS // max(1, len(numbers))))
    order = np.lexsort((labels.prototype_rank, group))
    starts, ends = (np.searchsorted(group[order], numbers, side=side) for side in ("left", "right"))
    images = unit_length(features[np.sort(rows)])  # (M, D)
    similarity = np.empty(len(numbers))
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        spaced = np.linspace(start, end - 1, min(count, end - start)).astype(np.int64)
        members = unit_length(features[np.sort(order[spaced])])
        nearest = np.sort(images @ members.T, axis=1)[:, -_NEAREST:]
        similarity[place] = (_mean(images) @ _mean(members).T).item() + nearest.mean()
    return [int(number) for number in numbers[np.argsort(-similarity, kind="stable")]]


def _mean(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean direction of some unit vectors: (M, D) -> (1, D)."""
    return unit_length(vectors.mean(axis=0, keepdims=True))


def _pairs(state: State, first: int, second: int) -> list[tuple[int, int, float]]:
    """The most similar images across two groups, no image twice."""
    group = state.groups.shown
    rows = np.flatnonzero(group == first)
    neighbors, similarities = state.opened.result.neighbors[rows], np.asarray(state.opened.result.similarities[rows])
    across = np.where(group[neighbors] == second, similarities, -2.0)
    best, place = across.max(axis=1), across.argmax(axis=1)
    pairs: list[tuple[int, int, float]] = []
    seen: set[int] = set()
    for at in np.argsort(-best, kind="stable").tolist():
        other = int(neighbors[at, place[at]])
        if best[at] <= -2.0 or len(pairs) == PAIRS_SHOWN:
            break
        if other not in seen:
            seen.add(other)
            pairs.append((int(rows[at]), other, round(float(best[at]), 3)))
    return pairs
