"""How many groups a collection has: a short list of plausible numbers, and a partition for each.

The curve (`curve`) is computed on several random draws of images. Plausible numbers are its peaks that stand out from
the noise between draws (`peaks`), and the numbers of communities of the neighbor graph at two resolutions
(`communities`). The answer is the coarsest of them that keeps nearly all the information of every finer one (`best`).
If shuffled features score as well, there are no clear groups.

Shapes: N images, n in a draw, D feature width, C numbers of groups, R draws, L labeled images.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from spice.progress import Progress, silent
from spice.stages.groups.communities import Communities, communities, ratio
from spice.stages.groups.curve import (
    Labels,
    Points,
    Values,
    centers_of,
    information_by_count,
    nearest_center,
    neighbors_counted,
    numbers_to_try,
    one_cloud,
    partitions,
    scores,
)
from spice.stages.groups.peaks import MOST_PEAKS, Curve, Peak, all_peaks, plausible
from spice.trust.vectors import unit_length

# Principal components that count: later ones are mostly noise.
COMPONENTS = 50
# Draws of images, each of this share of the collection and at most this many: enough for a hundred groups.
DRAWS, SHARE, MAX_IMAGES = 5, 0.8, 2_400
# Draws of features without groups. Real ones must beat all of these, and their mean by this many standard deviations.
NULL_DRAWS, CLEARLY = 5, 3.0
# Images that the principal components are computed from.
FOR_COMPONENTS = 10_000
FEWEST_IMAGES = 25
MOST = 150
# Ratio of two numbers of groups below which they are the same answer.
SAME = 1.1
# Share of the information of a finer partition that a coarser one has to keep to be preferred.
KEPT = 0.875


class HowMany(NamedTuple):
    """The answer."""

    clusters: int | None  # None: no clear groups
    candidates: list[Peak]  # coarsest first
    partitions: NDArray[np.int32]  # (candidates, N)
    curve: Curve
    null: float  # the highest score of features without groups
    communities: Communities  # of the neighbor graph
    drawn: int  # n
    fits_labels: bool  # whether the number was chosen to fit given labels


class GivenLabels(NamedTuple):
    """Labels that the user gave to some images."""

    rows: NDArray[np.int64]  # (L,)
    label: NDArray[np.int64]  # (L,)


def how_many(
    features: NDArray[np.float32],
    *,
    least: int = 2,
    most: int | None = None,
    given: GivenLabels | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> HowMany:
    """Find the number of groups between `least` and `most` for features (N, D)."""
    points = principal_components(features, np.random.default_rng([seed, 1]))
    drawn = min(MAX_IMAGES, round(SHARE * len(points)))
    counts = numbers_to_try(least, highest(len(points), least, most))
    steps = DRAWS + NULL_DRAWS + 1

    def sweep(number: int) -> Values:
        """Information in a draw, and in a Gaussian cloud like it: (2, C). From number DRAWS on, without groups."""
        random = np.random.default_rng([seed, 2, number])
        some = np.sort(random.permutation(len(points))[:drawn])
        draw = points[some]
        if number >= DRAWS:
            draw = principal_components(without_groups(np.asarray(features[some]), random), random)
        found = [information_by_count(draw, counts), information_by_count(one_cloud(draw, random), counts)]
        progress("how many groups", number + 1, steps)
        return np.array(found)

    real = np.array([sweep(number) for number in range(DRAWS)])  # (R, 2, C)
    without = np.array([sweep(DRAWS + number) for number in range(NULL_DRAWS)])
    curve = Curve(counts, scores(real[:, 0], real[:, 1], counts))
    null = scores(without[:, 0], without[:, 1], counts).max(axis=1)  # the best of each draw
    some = np.sort(np.random.default_rng([seed, 3]).permutation(len(points))[:MAX_IMAGES])
    fitting = None if given is None else fit_labels(points, some, curve, given)
    graph = communities(points, seed=seed)
    candidates = short_list(curve, [] if fitting is None else [fitting], graph)
    found = HowMany(
        clusters=fitting or (best(candidates) if has_groups(curve, null) else None),
        candidates=candidates,
        partitions=np.array(
            [labels.astype(np.int32) for labels in _on_all(points, some, [peak.clusters for peak in candidates])]
        ),
        curve=curve,
        null=float(null.max()),
        communities=graph,
        drawn=drawn,
        fits_labels=fitting is not None,
    )
    progress("how many groups", steps, steps)
    return found


def highest(images: int, least: int, most: int | None) -> int:
    """The highest number of groups to try: `most`, or by default as many as leave each group its own neighbors."""
    drawn = min(MAX_IMAGES, round(SHARE * images))
    limit = max(least, min(MOST, drawn // neighbors_counted(drawn)))
    return limit if most is None else max(least, min(most, drawn // 2))


def has_groups(curve: Curve, null: Values) -> bool:
    """Whether the best score of every sample clearly beats those of all samples without groups (NULL_DRAWS,)."""
    best = curve.score.max(axis=1)
    return bool(best.min() > null.max() and best.mean() > null.mean() + CLEARLY * null.std(ddof=1))


def without_groups(features: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.float32]:
    """Features (n, D) without groups: each column is shuffled.

    If there are few columns, each may show groups by itself: then they are replaced by Gaussian noise.
    """
    if features.shape[1] > COMPONENTS:
        return random.permuted(features, axis=0)
    return np.asarray(features.mean(axis=0) + one_cloud(features, random))


def principal_components(features: NDArray[np.float32], random: np.random.Generator) -> Points:
    """The leading principal components of unit-length features: (N, D) -> (N, at most 50)."""
    some = np.sort(random.permutation(len(features))[:FOR_COMPONENTS])
    known = unit_length(features[some])
    mean = known.mean(axis=0)
    width = known.shape[1]
    variances = np.cov(known - mean, rowvar=False).reshape(width, width)
    _, axes = eigh(variances, subset_by_index=[max(0, width - COMPONENTS), width - 1])  # the largest come last
    kept = axes[:, ::-1].astype(np.float32)
    parts = [(unit_length(features[start : start + 16_384]) - mean) @ kept for start in range(0, len(features), 16_384)]
    return np.concatenate(parts)


def fit_labels(points: Points, some: NDArray[np.int64], curve: Curve, given: GivenLabels) -> int:
    """The number of groups that matches the most given labels, one to one; ties go to the best score."""
    matched = [_matched(labels[given.rows], given.label) for labels in _on_all(points, some, curve.counts)]
    best = [place for place, count in enumerate(matched) if count == max(matched)]
    return curve.counts[max(best, key=lambda place: curve.mean[place])]


def _matched(labels: Labels, names: NDArray[np.int64]) -> int:
    """The number of images that the best one-to-one matching of groups and names gets right."""
    from scipy.optimize import linear_sum_assignment  # late: slow to import
    from sklearn.metrics.cluster import contingency_matrix

    table = contingency_matrix(labels, names)
    return int(table[linear_sum_assignment(table, maximize=True)].sum())


def short_list(curve: Curve, required: list[int], communities: Communities) -> list[Peak]:
    """At most three numbers of groups, coarsest first, no two of them nearly the same.

    By rank: the required ones, the finest clear peak, the communities, then the clearest other peaks.
    """
    *others, finest = plausible(curve)
    clearest = sorted(others, key=lambda peak: -peak.clearness)
    graph = [min(curve.counts, key=lambda count: ratio(count, found)) for found in communities]
    chosen: list[int] = []
    for number in (*required, finest.clusters, *graph, *(peak.clusters for peak in clearest)):
        if len(chosen) < MOST_PEAKS and all(ratio(number, other) >= SAME for other in chosen):
            chosen.append(number)
    known = {peak.clusters: peak for peak in all_peaks(curve)}
    return [known.get(number, _no_peak(curve, number)) for number in sorted(chosen)]


def best(candidates: list[Peak]) -> int:
    """The coarsest candidate that keeps most of the information of every finer one.

    The score is (I - I0) / ln K. Its highest peak is often too coarse (animals and vehicles), and the finest candidate
    too fine. Finer groups are better if they tell clearly more about an image's neighbors, by I - I0.
    """
    information = [peak.score * float(np.log(peak.clusters)) for peak in candidates]
    for place, peak in enumerate(candidates):
        if information[place] >= KEPT * max(information[place:]):
            return peak.clusters
    return candidates[-1].clusters


def _no_peak(curve: Curve, clusters: int) -> Peak:
    return Peak(clusters, float(curve.mean[curve.counts.index(clusters)]), 0.0, 0.0)


def _on_all(points: Points, some: NDArray[np.int64], counts: list[int]) -> list[Labels]:
    """A partition of all points (N,) into each number of groups, by the centers of a partition of some of them."""
    sample = points[some]
    return [nearest_center(points, centers_of(sample, labels)) for labels in partitions(sample, counts)]
