"""The number of groups in a collection: a shortlist of plausible numbers, and a partition for each.

The curve (`curve`) is computed on several random draws of images. Plausible numbers are its peaks that stand out from
the noise between draws (`peaks`), and the numbers of communities in the neighbor graph at two resolutions
(`communities`). The answer is the coarsest of them that keeps most of the information of every finer one
(`choose_count`). If shuffled features score as well, there are no clear groups.

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
    gaussian_cloud,
    information_by_count,
    nearest_center,
    neighbor_count,
    numbers_to_try,
    partitions,
    scores,
)
from spice.stages.groups.peaks import MAX_PEAKS, Curve, Peak, all_peaks, plausible
from spice.trust.vectors import unit_length

# Principal components to use: later ones are mostly noise.
COMPONENTS = 50
# Draws of images: each has this share of the collection, and at most this many images, enough for a hundred groups.
DRAWS, SHARE, MAX_IMAGES = 5, 0.8, 2_400
# Draws of features without groups. Real draws must score higher than all of these, and on average higher by this many
# standard deviations.
NULL_DRAWS, NULL_DEVIATIONS = 5, 3.0
# Principal components are computed from at most this many images.
MAX_IMAGES_FOR_COMPONENTS = 10_000
MIN_IMAGES = 25
MAX_GROUPS = 150
# Two numbers of groups with a ratio below this are the same answer.
SAME_RATIO = 1.1
# A coarser partition is preferred if it keeps this share of the information of a finer one.
KEPT_INFORMATION = 0.875


class HowMany(NamedTuple):
    """The number of groups, the candidates, and what the choice is based on."""

    clusters: int | None  # None: no clear groups
    candidates: list[Peak]  # coarsest first
    partitions: NDArray[np.int32]  # (candidates, N)
    curve: Curve
    null: float  # the highest score of features without groups
    communities: Communities
    drawn: int  # n
    fits_labels: bool  # whether given labels decided the number


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
    counts = numbers_to_try(least, highest_count(len(points), least, most))
    steps = DRAWS + NULL_DRAWS + 1

    def information(number: int) -> Values:
        """Information in a draw, and in a Gaussian cloud like it: (2, C). Draws from number DRAWS on have no groups."""
        random = np.random.default_rng([seed, 2, number])
        rows = np.sort(random.permutation(len(points))[:drawn])
        draw = points[rows]
        if number >= DRAWS:
            draw = principal_components(null_features(np.asarray(features[rows]), random), random)
        found = [information_by_count(draw, counts), information_by_count(gaussian_cloud(draw, random), counts)]
        progress("number of groups", number + 1, steps)
        return np.array(found)

    real = np.array([information(number) for number in range(DRAWS)])  # (R, 2, C)
    null_draws = np.array([information(DRAWS + number) for number in range(NULL_DRAWS)])
    curve = Curve(counts, scores(real[:, 0], real[:, 1], counts))
    null = scores(null_draws[:, 0], null_draws[:, 1], counts).max(axis=1)  # the best score of each draw
    sample = np.sort(np.random.default_rng([seed, 3]).permutation(len(points))[:MAX_IMAGES])
    fitting = None if given is None else fit_labels(points, sample, curve, given)
    graph = communities(points, seed=seed)
    candidates = shortlist(curve, [] if fitting is None else [fitting], graph)
    labels = _partitions_of_all(points, sample, [peak.clusters for peak in candidates])
    found = HowMany(
        clusters=fitting or (choose_count(candidates) if has_groups(curve, null) else None),
        candidates=candidates,
        partitions=np.array(labels, dtype=np.int32),
        curve=curve,
        null=float(null.max()),
        communities=graph,
        drawn=drawn,
        fits_labels=fitting is not None,
    )
    progress("number of groups", steps, steps)
    return found


def highest_count(images: int, least: int, most: int | None) -> int:
    """The highest number of groups to try: `most`, or by default as many as leave each group enough neighbors."""
    drawn = min(MAX_IMAGES, round(SHARE * images))
    limit = max(least, min(MAX_GROUPS, drawn // neighbor_count(drawn)))
    return limit if most is None else max(least, min(most, drawn // 2))


def has_groups(curve: Curve, null: Values) -> bool:
    """Whether the best score of every draw is clearly higher than those of draws without groups, `null` (R,)."""
    best = curve.score.max(axis=1)
    return bool(best.min() > null.max() and best.mean() > null.mean() + NULL_DEVIATIONS * null.std(ddof=1))


def null_features(features: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.float32]:
    """Features (n, D) without groups: each column is shuffled.

    If there are few columns, a single one may show groups. Then features are replaced by Gaussian noise.
    """
    if features.shape[1] > COMPONENTS:
        return random.permuted(features, axis=0)
    return np.asarray(features.mean(axis=0) + gaussian_cloud(features, random))


def principal_components(features: NDArray[np.float32], random: np.random.Generator) -> Points:
    """The leading principal components of unit-length features: (N, D) -> (N, at most 50)."""
    rows = np.sort(random.permutation(len(features))[:MAX_IMAGES_FOR_COMPONENTS])
    sample = unit_length(features[rows])
    mean = sample.mean(axis=0)
    width = sample.shape[1]
    covariance = np.cov(sample - mean, rowvar=False).reshape(width, width)
    _, axes = eigh(covariance, subset_by_index=[max(0, width - COMPONENTS), width - 1])  # ascending
    kept = axes[:, ::-1].astype(np.float32)
    parts = [(unit_length(features[start : start + 16_384]) - mean) @ kept for start in range(0, len(features), 16_384)]
    return np.concatenate(parts)


def fit_labels(points: Points, sample: NDArray[np.int64], curve: Curve, given: GivenLabels) -> int:
    """The number of groups that matches most given labels, one to one; among equals, the one with the best score."""
    partitions = _partitions_of_all(points, sample, curve.counts)
    matched = [_matched_labels(labels[given.rows], given.label) for labels in partitions]
    best = [place for place, count in enumerate(matched) if count == max(matched)]
    return curve.counts[max(best, key=lambda place: curve.mean[place])]


def _matched_labels(labels: Labels, names: NDArray[np.int64]) -> int:
    """The number of images that the best one-to-one matching of groups and names gets right."""
    from scipy.optimize import linear_sum_assignment  # late: slow to import
    from sklearn.metrics.cluster import contingency_matrix

    table = contingency_matrix(labels, names)
    return int(table[linear_sum_assignment(table, maximize=True)].sum())


def shortlist(curve: Curve, required: list[int], communities: Communities) -> list[Peak]:
    """At most three numbers of groups, coarsest first, no two of them nearly the same.

    In order of priority: required numbers, the finest clear peak, the communities, then the clearest other peaks.
    """
    *others, finest = plausible(curve)
    clearest = sorted(others, key=lambda peak: -peak.clearness)
    graph = [min(curve.counts, key=lambda count: ratio(count, found)) for found in communities]
    chosen: list[int] = []
    for number in (*required, finest.clusters, *graph, *(peak.clusters for peak in clearest)):
        if len(chosen) < MAX_PEAKS and all(ratio(number, other) >= SAME_RATIO for other in chosen):
            chosen.append(number)
    known = {peak.clusters: peak for peak in all_peaks(curve)}
    return [known.get(number, _no_peak(curve, number)) for number in sorted(chosen)]


def choose_count(candidates: list[Peak]) -> int:
    """The coarsest candidate that keeps most of the information of every finer one.

    The highest peak of the score S(K) is often too coarse (animals and vehicles), and the finest candidate too fine.
    Finer groups are better if they give clearly more information, I - I_0, about the neighbors of an image.
    """
    information = [peak.score * float(np.log(peak.clusters)) for peak in candidates]
    for place, peak in enumerate(candidates):
        if information[place] >= KEPT_INFORMATION * max(information[place:]):
            return peak.clusters
    return candidates[-1].clusters


def _no_peak(curve: Curve, clusters: int) -> Peak:
    return Peak(clusters, float(curve.mean[curve.counts.index(clusters)]), 0.0, 0.0)


def _partitions_of_all(points: Points, sample: NDArray[np.int64], counts: list[int]) -> list[Labels]:
    """A partition of all points (N,) into each number of groups, by the nearest center of a partition of a sample."""
    sampled = points[sample]
    return [nearest_center(points, centers_of(sampled, labels)) for labels in partitions(sampled, counts)]
