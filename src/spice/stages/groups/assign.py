"""The group of every image: the most likely one that agrees with all decisions of a person.

Shapes: N images, n of them in a set, G groups.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from spice.stages.groups.corrections import Corrections


def assign_groups(probs: NDArray[np.float32], corrections: Corrections) -> NDArray[np.int64]:
    """The most likely group that is not rejected: (N, G) -> (N,); -1 for images that are set aside.

    Images that belong together get the same group: if one of them is fixed, its group. If two images that do not belong
    together have the same group, the less certain one moves.
    """
    score = np.log(np.maximum(probs.astype(np.float64), 1e-12))  # (N, G)
    score[:, corrections.aside_groups] = -np.inf
    score[corrections.rejected[:, 0], corrections.rejected[:, 1]] = -np.inf
    score[corrections.fixed] = -np.inf
    score[corrections.fixed, corrections.fixed_group] = 0.0
    together = _together(len(score), corrections.same)  # (N,) one number per set of images that belong together
    for number in np.unique(together[corrections.same]):
        rows = np.flatnonzero(together == number)
        score[rows] = _common_scores(score[rows])
    group = score.argmax(axis=1)
    for first, second in corrections.different.tolist():
        if group[first] == group[second]:
            _separate_(score, group, together, first, second)
    return np.where(corrections.aside < 0, group, -1)


def _together(images: int, same: NDArray[np.int64]) -> NDArray[np.int32]:
    """A number for each set of images that belong together: (N,)."""
    links = coo_matrix((np.ones(len(same)), (same[:, 0], same[:, 1])), shape=(images, images))
    numbers: NDArray[np.int32] = connected_components(links, directed=False)[1]
    return numbers


def _common_scores(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores for a set of images: their sum, or those of the first fixed image if decisions conflict: (n, G)."""
    total: NDArray[np.float64] = scores.sum(axis=0)
    if np.isfinite(total).any():
        return total
    fixed = np.isfinite(scores).sum(axis=1) == 1
    return scores if not fixed.any() else np.where(fixed[:, None], scores, scores[fixed][0])


def _separate_(
    score: NDArray[np.float64], group: NDArray[np.int64], together: NDArray[np.int32], first: int, second: int
) -> None:
    """Move the less certain of two images, and all images that belong together with it, to its next best group."""
    margin = [np.diff(np.sort(score[row])[-2:])[0] for row in (first, second)]  # infinite for a fixed image
    moving = first if margin[0] < margin[1] else second
    if not np.isfinite(min(margin)):
        return  # both are fixed, or have no other group left
    score[together == together[moving], group[moving]] = -np.inf
    group[together == together[moving]] = score[moving].argmax()
