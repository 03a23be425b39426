"""Whether a cluster can be trusted: a grade, a reason and at most one piece of advice, without labels.

Shapes: N images, K clusters, S neighbors.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.runs import Labels
from spice.trust.check import Estimate
from spice.trust.evidence import Parts, groups_among_neighbors, similar_groups
from spice.trust.grade import GOOD_UP_TO, NEAREST, Grade, grade_of

# Overlap (Jaccard index) with another head's cluster: below the first it is a different cluster, above the second the
# same one.
ANOTHER_CLUSTER, SAME_CLUSTER = 0.5, 0.9
# The reason names another cluster that has at least this share of the neighbors.
CONFUSED_SHARE = 0.05
MERGE_SHARE = 0.15  # advise a merge if both clusters have at least this share of their neighbors in the other
SPLIT_LINKS = 0.1  # advise a split if less than this share of links crosses between the two parts
SCATTERED_SHARE = 0.2  # a cluster is scattered if no other cluster has a larger share of its neighbors
MOST_SPLITS = 3  # advise at most this many splits: those with the fewest links between their parts
MOST_LEFTOVERS = 3  # advise setting aside at most this many: the most scattered. For others, advise fewer groups

_LEFTOVERS = "seems to be leftovers from many groups. Set it aside?"
_TOO_MANY = "its images resemble many other groups. Try fewer groups?"
_NOT_SEEN = "the encoder does not separate it from other groups. Try a larger --size or another --encoder."

Share = NDArray[np.float64]


class Verdict(NamedTuple):
    """A grade and the measures behind it."""

    grade: Grade
    reason: str
    advice: str  # empty if there is none
    chance: float  # mean over its images
    groups: float  # effective number of clusters among the nearest neighbors of its images
    share: float  # of its images that are reliable
    confused_with: int | None
    confusion: float  # share of its images' neighbors that are in that cluster
    heads: float | None  # mean overlap (Jaccard index) with the nearest cluster of each other good head


EMPTY = Verdict(Grade.WEAK, "no images", "", 0.0, 1.0, 0.0, None, 0.0, None)


class Evidence(NamedTuple):
    """What verdicts are based on."""

    votes: Share  # (K, K) `neighbor_votes`
    near: Share  # (K, K) the same for the five nearest neighbors
    overlap: Sequence[float] | None = None  # (K,) of each cluster with those of other heads
    parts: Sequence[Parts | None] | None = None  # (K,) the two parts of each cluster
    checked: dict[int, Estimate] = {}  # noqa: RUF012 - a NamedTuple's default, never changed


def verdicts(labels: Labels, evidence: Evidence) -> list[Verdict]:
    """One verdict per cluster."""
    sizes = np.bincount(labels.cluster, minlength=len(evidence.votes))
    counts = groups_among_neighbors(evidence.near)
    found = [
        _verdict(labels, evidence, number, float(counts[number])) if sizes[number] else EMPTY
        for number in range(len(sizes))
    ]
    advice = _advice(evidence, found)
    return [verdict._replace(advice=advice.get(number, "")) for number, verdict in enumerate(found)]


def _verdict(labels: Labels, evidence: Evidence, number: int, groups: float) -> Verdict:
    members, votes = labels.cluster == number, evidence.votes[number]
    elsewhere = np.where(np.arange(len(votes)) == number, 0.0, votes)
    other = int(elsewhere.argmax())
    verdict = Verdict(
        grade=grade_of(groups, float(evidence.near[number, number])),
        reason="",
        advice="",
        chance=float(labels.chance[members].mean(dtype=np.float64)),
        groups=groups,
        share=float(labels.reliable[members].mean()),
        confused_with=other if elsewhere[other] > 0 else None,
        confusion=float(elsewhere[other]),
        heads=None if evidence.overlap is None else evidence.overlap[number],
    )
    return verdict._replace(reason=_reason(verdict, evidence.checked.get(number)))


def _reason(verdict: Verdict, checked: Estimate | None) -> str:
    reasons = [f"mean chance {verdict.chance:.0%}"]
    if checked is not None:
        reasons = [f"{checked.words} of its images are right ({checked.answers} checked)"]
    if verdict.confusion >= CONFUSED_SHARE:
        reasons.append(f"{verdict.confusion:.0%} of its neighbors are in group {verdict.confused_with}")
    if verdict.groups > GOOD_UP_TO:
        reasons.append(f"the {NEAREST} nearest images come from {verdict.groups:.1f} groups")
    if verdict.heads is not None:
        reasons.append(_overlap(verdict.heads))
    return "; ".join(reasons)


def _overlap(heads: float) -> str:
    if heads >= SAME_CLUSTER:
        return "other heads found it too"
    return "other heads found part of it" if heads >= ANOTHER_CLUSTER else "other heads split it differently"


def _advice(evidence: Evidence, found: Sequence[Verdict]) -> dict[int, str]:
    """At most one piece of advice per cluster. Merges and splits are never advised in the same run."""
    advice: dict[int, str] = {}
    for first, second, share in similar_groups(evidence.votes, MERGE_SHARE):
        if first not in advice and second not in advice:
            text = f"each has at least {share:.0%} of its neighbors in the other. Merge them?"
            advice[first] = f"seems to show the same as group {second}: {text}"
            advice[second] = f"seems to show the same as group {first}: {text}"
    if not advice:
        advice |= _splits(evidence.parts or ())
    weak = [number for number, verdict in enumerate(found) if verdict.grade == Grade.WEAK and verdict is not EMPTY]
    scattered = [number for number in weak if found[number].confusion <= SCATTERED_SHARE]
    leftovers = sorted(scattered, key=lambda number: -found[number].groups)[:MOST_LEFTOVERS]
    for number in weak:
        if number not in advice:
            advice[number] = _LEFTOVERS if number in leftovers else _TOO_MANY if number in scattered else _NOT_SEEN
    return advice


def _splits(parts: Sequence[Parts | None]) -> dict[int, str]:
    loose = [(part.links, number, part) for number, part in enumerate(parts) if part and part.links < SPLIT_LINKS]
    return {
        number: (
            f"seems to have two parts of {max(part.sizes):,} and {min(part.sizes):,} images: only {links:.0%} of the "
            "links between neighbors cross. Split it if they show different things."
        )
        for links, number, part in sorted(loose)[:MOST_SPLITS]
    }
