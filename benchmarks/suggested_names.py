"""Whether suggested names make sense: the word for each group beside the class that most of its images are of.

python benchmarks/suggested_names.py features.npz ...   # `features` of lite0 (N, 1280), `paths` (.../class/file)
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from spice.models.efficientnet import load_classifier
from spice.runs.groups import Groups
from spice.runs.words import KEPT, ImageWords, suggest_names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--images", type=int, default=3000, help="at most so many")
    given = parser.parse_args()
    for file in given.files:
        with np.load(file, allow_pickle=False) as data:
            order = np.random.default_rng(0).permutation(len(data["features"]))[: given.images]
            features, paths = data["features"][order].astype(np.float32), data["paths"][order].tolist()
        classes = np.array([Path(path).parent.name for path in paths])
        show(file.stem, features, classes)


def show(name: str, features: np.ndarray, classes: np.ndarray) -> None:
    clusters = len(np.unique(classes))
    cluster = KMeans(clusters, n_init=2, random_state=0).fit_predict(normalize(features)).astype(np.int32)
    numbers, nobody = np.arange(clusters, dtype=np.int32), np.zeros(len(cluster), dtype=np.bool_)
    groups = Groups(cluster, nobody, {}, numbers.tolist(), frozenset(), numbers, {}, frozenset())
    best = load_classifier("lite0")(torch.from_numpy(features)).softmax(dim=1).topk(KEPT, dim=1)
    seen = ImageWords(best.indices.numpy().astype(np.uint16), best.values.numpy().astype(np.float16))
    suggested = suggest_names(seen, groups)
    print(f"{name}: {len(suggested)} of {clusters} groups")
    for group, word in suggested.items():
        found, counts = np.unique(classes[cluster == group], return_counts=True)
        print(f"  {word:24} {found[counts.argmax()]} ({counts.max() / counts.sum():.0%})")


if __name__ == "__main__":
    main()
