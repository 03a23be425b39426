"""Which score without labels finds the number of groups? Silhouette against neighbor information, on stored features.

    python benchmarks/score_without_labels.py FEATURES.npz ...

Each file holds `features` (N, D) and `truth` (N,). The truth is only counted, for the last column. Partitions are
k-means on one half of 2,000 images, scored on the other half.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import normalize

COUNTS = (2, 3, 5, 7, 10, 12, 15, 20, 30, 50, 70, 100)
IMAGES, NEIGHBORS = 2000, 20


def neighbor_information(cluster: NDArray[np.int32], neighbors: NDArray[np.int64], count: int) -> float:
    """Mutual information of an image's cluster and its neighbors', divided by ln K."""
    joint = np.zeros((count, count))
    np.add.at(joint, (np.repeat(cluster, neighbors.shape[1]), cluster[neighbors].ravel()), 1)
    joint = (joint + joint.T) / (2 * joint.sum())
    share = joint.sum(axis=1)
    there = joint > 0
    return float((joint[there] * np.log(joint[there] / np.outer(share, share)[there])).sum() / np.log(count))


def main() -> None:
    print("collection | by silhouette | by neighbor information | truth")
    for name in sys.argv[1:]:
        stored = np.load(name)
        chosen = np.random.default_rng(0).permutation(len(stored["features"]))[:IMAGES]
        features = normalize(stored["features"][chosen].astype(np.float32))
        fitted, scored = np.array_split(features, 2)
        similarity = scored @ scored.T
        np.fill_diagonal(similarity, -1)
        neighbors = np.argpartition(-similarity, NEIGHBORS, axis=1)[:, :NEIGHBORS]
        silhouette, information = list[float](), list[float]()
        for count in COUNTS:
            found = KMeans(count, n_init=3, random_state=0).fit(fitted).predict(scored)
            silhouette.append(float(silhouette_score(scored, found)))
            information.append(neighbor_information(found, neighbors, count))
        best = [COUNTS[int(np.argmax(score))] for score in (silhouette, information)]
        print(Path(name).stem, *best, len(np.unique(stored["truth"])), sep=" | ", flush=True)


if __name__ == "__main__":
    main()
