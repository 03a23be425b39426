"""The group of every image: the most likely one that agrees with everything a person decided.

Shapes: N images, G groups.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from spice.stages.groups.lessons import Lessons


def assign_groups(probs: NDArray[np.float32], lessons: Lessons) -> NDArray[np.int64]:
    """The most likely group that nobody has ruled out: (N, G) -> (N,); -1 for images that are set aside.

    Images that belong together get the same group, that of the fixed image if one of them is fixed. Of two images that
    belong to different groups, the less certain one moves.
    """
    score = np.log(np.maximum(probs.astype(np.float64), 1e-12))  # (N, G)
    score[:, lessons.aside_groups] = -np.inf
    score[lessons.rejected[:, 0], lessons.rejected[:, 1]] = -np.inf
    score[lessons.fixed] = -np.inf
    score[lessons.fixed, lessons.fixed_group] = 0.0
    together = _together(len(score), lessons.same)  # (N,) one number per set of images that belong together
    for number in np.unique(together[lessons.same]):
        rows = np.flatnonzero(together == number)
        score[rows] = _joint(score[rows])
    group = score.argmax(axis=1)
    for first, second in lessons.different.tolist():
        if group[first] == group[second]:
            _separate_(score, group, together, first, second)
    return np.where(lessons.aside < 0, group, -1)


def _together(images: int, same: NDArray[np.int64]) -> NDArray[np.int32]:
    links = coo_matrix((np.ones(len(same)), (same[:, 0], same[:, 1])), shape=(images, images))
    numbers: NDArray[np.int32] = connected_components(links, directed=False)[1]
    return numbers


def _joint(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The common scores of images: their sum, or those of the first fixed image if decisions contradict each other."""
    total: NDArray[np.float64] = scores.sum(axis=0)
    if np.isfinite(total).any():
        return total
    fixed = np.isfinite(scores).sum(axis=1) == 1
    return scores if not fixed.any() else np.where(fixed[:, None], scores, scores[fixed][0])


def _separate_(
    score: NDArray[np.float64], group: NDArray[np.int64], together: NDArray[np.int32], first: int, second: int
) -> None:
    """Move the less certain of two images, and those that belong together with it, to its next best group."""
    lead = [np.diff(np.sort(score[row])[-2:])[0] for row in (first, second)]  # infinite for a fixed image
    moving = first if lead[0] < lead[1] else second
    if not np.isfinite(min(lead)):
        return  # both are fixed, or nothing else is possible
    score[together == together[moving], group[moving]] = -np.inf
    group[together == together[moving]] = score[moving].argmax()
