"""Statistics of a check by hand: a person judges whether randomly drawn images are in the right group.

Shapes: N images, A answered images, K groups.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betaincinv, ndtri

Chances = NDArray[np.float32] | NDArray[np.float64]
Rows = NDArray[np.int64]
Bools = NDArray[np.bool_]

CONFIDENCE = 0.95  # of intervals
KEEP, KEEP_CONFIDENCE = 0.95, 0.90  # default accuracy of the images to keep, and its confidence
MIN_ANSWERS = 5  # in a group, for its purity
# Chances from neighbors are too extreme, so the prior slope is one half, with the weight of 25 answers.
PRIOR_SLOPE, PRIOR_ANSWERS = 0.5, 25
LOWEST, HIGHEST = 0.001, 0.999  # chances after a check: answers never make an image certain

_GOLDEN = (math.sqrt(5) - 1) / 2
_Z = float(ndtri((1 + CONFIDENCE) / 2))  # 1.96 standard errors


class Estimate(NamedTuple):
    """A share with its 95 % confidence interval."""

    value: float
    low: float
    high: float
    answers: int

    @property
    def words(self) -> str:
        """`83% (71% to 92%)`."""
        return f"{self.value:.0%} ({self.low:.0%} to {self.high:.0%})"


class Keep(NamedTuple):
    """Which images to keep, so that at least a share of `target` is right."""

    target: float
    confidence: float
    threshold: float | None  # keep images with at least this chance; None: no threshold passes the test
    images: int
    answers: int  # for images above the threshold
    wrong: int  # of these answers
    needed: int  # number of answers needed to keep any images, if all answers are right


def draw(cluster: NDArray[np.int32], chance: Chances, count: int, *, seed: int) -> Rows:
    """Rows to ask about. Every image is equally likely, and every prefix of the list is spread over groups and chances.

    Images are sorted by group and chance, and visited in steps of the golden ratio from a random start. With the same
    seed, a longer list continues a shorter one.
    """
    images = len(cluster)
    order = np.lexsort((chance, cluster))
    start = np.random.default_rng([seed, 23]).random()
    steps = (start + _GOLDEN * np.arange(4 * min(count, images) + 64)) % 1
    rows = order[np.minimum((steps * images).astype(np.int64), images - 1)]
    _, first = np.unique(rows, return_index=True)
    found = rows[np.sort(first)]
    # Steps may miss the last few images of a small collection.
    rest = np.setdiff1d(order, found) if len(found) < min(count, images) else found[:0]
    return np.concatenate([found, rest])[:count]


def accuracy(chance: Chances, rows: Rows, right: Bools, *, among: Bools | None = None) -> Estimate | None:
    """The share of images in the right group; None with fewer than two answers.

    The estimate is prediction-powered: mean chance of all images + mean of (right - chance) over the answers. The
    interval is the union of two: +- 1.96 sd / sqrt(n), and the same with two more right and two more wrong answers
    (Agresti and Coull's "plus four"), which is not empty if all answers are the same. With few errors, each of the two
    is too short on one side.

    Args:
        among: (N,) count these images only. None: all.
    """
    if among is not None:
        inside = among[rows]
        rows, right = rows[inside], right[inside]
    if len(rows) < 2:
        return None
    images = len(chance) if among is None else int(among.sum())
    mean = float(np.mean(chance if among is None else chance[among], dtype=np.float64))
    difference: NDArray[np.float64] = right - chance[rows].astype(np.float64)  # (A,)
    value = float(np.clip(mean + difference.mean(), 0, 1))
    plus_four = np.concatenate([difference, [1 - mean, 1 - mean, -mean, -mean]])
    unseen = max(0.0, 1 - len(rows) / images)  # finite population correction
    ends = [
        center + side * _Z * math.sqrt(unseen * values.var(ddof=1) / len(values))
        for values, center in ((difference, value), (plus_four, mean + plus_four.mean() if unseen else value))
        for side in (-1, 1)
    ]
    return Estimate(value, float(max(0, min(ends))), float(min(1, max(ends))), len(rows))


def purities(cluster: NDArray[np.int32], rows: Rows, right: Bools, clusters: int) -> list[Estimate | None]:
    """The share of right images in each group, with the exact interval (Clopper-Pearson). None below five answers."""
    asked = np.bincount(cluster[rows], minlength=clusters)
    good = np.bincount(cluster[rows][right], minlength=clusters)
    return [
        _exact(int(wins), int(tries)) if tries >= MIN_ANSWERS else None for wins, tries in zip(good, asked, strict=True)
    ]


def recalibrate(chance: Chances, rows: Rows, right: Bools) -> NDArray[np.float32]:
    """Chances with the estimated accuracy as their mean: (N,) -> (N,).

    accuracy + b (chance - mean chance), where b is the least-squares slope of the answers, shrunk towards 1/2.
    """
    found = accuracy(chance, rows, right)
    if found is None:
        return chance.astype(np.float32)
    all_chances, asked = chance.astype(np.float64), chance[rows].astype(np.float64)
    prior = PRIOR_ANSWERS * float(all_chances.var())
    centered = asked - asked.mean()
    spread = float((centered**2).sum()) + prior
    slope = (float((centered * (right - right.mean())).sum()) + PRIOR_SLOPE * prior) / spread if spread else 0.0
    new = found.value + max(0.0, slope) * (all_chances - all_chances.mean())
    clipped: NDArray[np.float32] = np.clip(new, LOWEST, HIGHEST).astype(np.float32)
    return clipped


def keep(chance: Chances, rows: Rows, right: Bools, *, target: float = KEEP) -> Keep:
    """The lowest threshold above which a share of `target` is right, with 90 % confidence (exact binomial test).

    Thresholds are tried from the top. Each next one has just enough answers to pass with one more wrong answer. The
    first that fails ends the search. Because this order is fixed, multiple tests need no correction.
    """
    if not 0 < target < 1:
        raise ValueError(f"target must be between 0 and 1, got {target}")
    asked = chance[rows].astype(np.float64)
    descending = np.sort(asked)[::-1]
    best = Keep(target, KEEP_CONFIDENCE, None, 0, 0, 0, needed(0, target))
    for threshold in _thresholds(descending, target):
        inside = asked >= threshold
        wrong = int((~right[inside]).sum())
        if bdtr(wrong, int(inside.sum()), 1 - target) > 1 - KEEP_CONFIDENCE:
            break
        images = int((chance >= threshold).sum())
        best = best._replace(threshold=threshold, images=images - wrong, answers=int(inside.sum()), wrong=wrong)
    return best


def _thresholds(descending: NDArray[np.float64], target: float) -> Iterator[float]:
    """Thresholds to try, from the top, each with enough answers for one more wrong one. The last keeps all images."""
    for errors in range(len(descending)):
        count = needed(errors, target)
        if count >= len(descending):
            break
        yield float(descending[count - 1])
    if needed(0, target) <= len(descending):
        yield 0.0


def needed(errors: int, target: float) -> int:
    """The smallest number of answers that passes the test for `target` with this many wrong ones."""
    count = errors + 1
    while bdtr(errors, count, 1 - target) > 1 - KEEP_CONFIDENCE:
        count += 1
    return count


def _exact(wins: int, tries: int) -> Estimate:
    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(wins, tries - wins + 1, tail)) if wins else 0.0
    high = float(betaincinv(wins + 1, tries - wins, 1 - tail)) if wins < tries else 1.0
    return Estimate(wins / tries, low, high, tries)
