"""Groups within groups: many small groups, merged two at a time so that the least neighbor information is lost.

With f(x) = x ln x and J the shares of neighbor pairs (see `curve`), I = sum f(J_rs) - 2 sum f(p_r). Merging a and b
loses

    sum over r of 2 [f(J_ar) + f(J_br) - f(J_ar + J_br)] + f(J_aa) + f(J_bb) + 2 f(J_ab) - f(J_aa + J_bb + 2 J_ab)
    + 2 [f(p_a + p_b) - f(p_a) - f(p_b)]

where r is neither a nor b. A merge changes all terms of the pairs with a and b, and three terms of every other pair.

Shapes: N images, n of them in a group, K leaves, D columns.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from threadpoolctl import threadpool_limits

from spice.errors import UserError
from spice.stages.groups.curve import Labels, Points, joint_distribution, nearest_center

Array = NDArray[np.float64]

MAX_LEAVES, IMAGES_PER_LEAF = 300, 10
# k-means finds the leaves from at most this many images.
MAX_IMAGES_FOR_LEAVES = 20_000
# A part of a group has at least this share of its images: a few stray images from another branch are not a part.
SMALLEST_PART = 0.05


class MergeTree(NamedTuple):
    """Leaves 0 to K - 1; merge m makes node K + m of two earlier nodes."""

    leaf: NDArray[np.int32]  # (N,) of every image
    merges: NDArray[np.int32]  # (K - 1, 2)
    lost: Array  # (K - 1,) information lost by each merge, in nats

    def cut(self, clusters: int) -> NDArray[np.int32]:
        """The group of every image if the tree is cut into this many: (N,). Groups are numbered by their first leaf."""
        return self.node_of_leaf(clusters)[self.leaf]

    def node_of_leaf(self, clusters: int) -> NDArray[np.int32]:
        """The group of every leaf if the tree is cut into this many: (K,)."""
        leaves = len(self.merges) + 1
        if not 1 <= clusters <= leaves:
            raise ValueError(f"the merge tree has 1 to {leaves} groups, got {clusters}")
        top = np.arange(2 * leaves - 1)
        for number, (one, other) in enumerate(self.merges[: leaves - clusters]):
            top[[one, other]] = leaves + number
        for node in range(2 * leaves - 2, -1, -1):
            top[node] = top[top[node]]
        _, first, group = np.unique(top[:leaves], return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[group].astype(np.int32)

    def split(self, members: NDArray[np.int64], *, into: int) -> list[NDArray[np.int64]]:
        """Split `members` (n,) into `into` parts, largest first, at the coarsest cut that has as many.

        Images of smaller branches stay with the largest part.
        """
        least = max(1, SMALLEST_PART * len(members))
        for clusters in range(into, len(self.merges) + 2):
            branch = self.cut(clusters)[members]  # (n,)
            branches, counts = np.unique(branch, return_counts=True)
            large = branches[counts >= least]
            if len(large) < into:
                continue
            chosen = large[np.argsort(-counts[counts >= least], kind="stable")][:into]
            branch = np.where(np.isin(branch, chosen), branch, chosen[0])
            return sorted((members[branch == one] for one in chosen), key=len, reverse=True)
        raise UserError(f"the tree cannot split this group of {len(members):,} images into {into} parts")


def merge_tree(points: Points, neighbors: NDArray[np.int64], *, seed: int) -> MergeTree:
    """The tree of points (N, D) with neighbors (N, k)."""
    leaf = np.unique(small_groups(points, seed=seed), return_inverse=True)[1]
    merges, lost = merge_all(joint_distribution(leaf, neighbors))
    return MergeTree(leaf.astype(np.int32), merges, lost)


def small_groups(points: Points, *, seed: int) -> Labels:
    """At most 300 groups by k-means, about ten images each in a small collection: (N,)."""
    from sklearn.cluster import KMeans  # late: slow to import

    count = int(np.clip(len(points) // IMAGES_PER_LEAF, 2, MAX_LEAVES))
    sample = points[np.sort(np.random.default_rng([seed, 4]).permutation(len(points))[:MAX_IMAGES_FOR_LEAVES])]
    with threadpool_limits(1, user_api="openmp"):  # the order of sums depends on the threads
        centers = KMeans(count, n_init=1, random_state=seed).fit(sample).cluster_centers_
    return nearest_center(points, centers.astype(np.float32))


def merge_all(joint: Array) -> tuple[NDArray[np.int32], Array]:
    """Merge down to one group. Returns the merged nodes (K - 1, 2) and the information that each merge loses."""
    joint, count = joint.copy(), len(joint)
    node, loss = np.arange(count), losses(joint)
    merges, lost = [], []
    for number in range(count - 1):
        one, other = sorted(int(place) for place in np.unravel_index(loss.argmin(), loss.shape))
        merges.append((node[one], node[other]))
        lost.append(max(float(loss[one, other]), 0.0))
        _merge_(joint, loss, one, other)
        node[one] = count + number
    return np.array(merges, dtype=np.int32).reshape(-1, 2), np.array(lost)


def losses(joint: Array) -> Array:
    """The information that each merge would lose: (K, K), infinite on the diagonal."""
    found = np.array([_loss_with(joint, place) for place in range(len(joint))])
    np.fill_diagonal(found, np.inf)
    return found


def _loss_with(joint: Array, one: int) -> Array:
    """What merging `one` with each other group would lose: (K,)."""
    row, own, mass = joint[one], np.diag(joint), joint.sum(axis=1)
    all_groups = 2 * _merge_term(row[None], joint).sum(axis=1)  # over all r; r = a and r = b are subtracted below
    with_one, with_other = 2 * _merge_term(row[one], row), 2 * _merge_term(row, own)
    inside = xlogy(row[one], row[one]) + xlogy(own, own) + 2 * xlogy(row, row)
    merged = row[one] + own + 2 * row
    loss = all_groups - with_one - with_other + inside - xlogy(merged, merged) - 2 * _merge_term(mass[one], mass)
    return np.asarray(loss)


def _merge_(joint: Array, loss: Array, one: int, other: int) -> None:
    """Merge `other` into `one`, and update the losses of all pairs."""
    old_one, old_other = joint[one].copy(), joint[other].copy()
    new = old_one + old_other
    # Other pairs (r, s): their terms with `one` and `other` become one term with the merged group. It is zero unless r
    # and s both have neighbors in the merged group.
    near = np.flatnonzero(new)
    change = _pair_terms(new[near]) - _pair_terms(old_one[near]) - _pair_terms(old_other[near])
    loss[np.ix_(near, near)] += 2 * change
    inside = old_one[one] + old_other[other] + 2 * old_one[other]
    joint[one], joint[:, one] = new, new
    joint[one, one] = inside
    joint[other], joint[:, other] = 0.0, 0.0
    gone: NDArray[np.bool_] = np.asarray(np.isinf(loss).all(axis=1))
    gone[other] = True
    loss[one] = _loss_with(joint, one)
    loss[:, one] = loss[one]
    loss[gone], loss[:, gone] = np.inf, np.inf
    np.fill_diagonal(loss, np.inf)


def _pair_terms(row: Array) -> Array:
    """f(x_r) + f(x_s) - f(x_r + x_s) for all pairs: (K,) -> (K, K)."""
    return _merge_term(row[:, None], row[None])


def _merge_term(one: Array, other: Array) -> Array:
    """f(x) + f(y) - f(x + y), at most 0."""
    total = one + other
    found: Array = xlogy(one, one) + xlogy(other, other) - xlogy(total, total)
    return found
