"""Names of groups: do they survive a run on more images, and are suggested names right?

    python benchmarks/names.py survive trash.npz flowers.npz
    python benchmarks/names.py suggest imagenette.npz ...

The files come from `frozen_features.py encode` with lite0. `survive` names all groups, adds a fifth more images and
clusters again. `suggest` prints the suggested name of each group of k-means and the class of most of its images.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from spice.models.efficientnet import load_classifier
from spice.pipeline import cluster
from spice.presets import preset
from spice.runs import open_result
from spice.runs.editor import Editor
from spice.runs.edits import Name
from spice.runs.groups import Groups
from spice.runs.suggested_names import CLASSES_KEPT, ImageWords, suggest_names
from stored import Features, Truth, read_class_names, read_features

NEW = 0.2


def survive(file: Path) -> None:
    features, truth = read_features(file)
    features = features[np.random.default_rng(0).permutation(len(features))]
    settings, old = preset("quick", clusters=int(truth.max()) + 1), int(len(features) / (1 + NEW))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        cluster(features[:old], settings, run, page=False)
        editor = Editor(run)
        for group in editor.groups.existing:
            editor.do(Name(group=group, name=f"name {group}"))
        before = dict(zip(editor.base.hashes, editor.groups.columns()["name"], strict=True))
        cluster(features, settings, run, page=False, redo=True)
        result = open_result(run)
        after = dict(zip(result.hashes, result.groups.columns()["name"], strict=True))
    kept = [after[image] == name for image, name in before.items()]
    named = [bool(name) for image, name in after.items() if image not in before]
    print(
        f"{file.stem}: {np.mean(kept):.4f} of {len(kept):,} named images keep their name; "
        f"{np.mean(named):.3f} of {len(named):,} new images get one"
    )


def suggest(file: Path) -> None:
    features, truth = read_features(file)
    classes = read_class_names(file)
    found = suggested(features, truth)
    print(f"{file.stem}: {len(found)} of {len(classes)} groups")
    for word, counts in found:
        print(f"  {word:24} {classes[counts.argmax()]} ({counts.max() / counts.sum():.0%})")


def suggested(features: Features, truth: Truth) -> list[tuple[str, Truth]]:
    """The suggested name of each group, and the number of its images in each true class."""
    clusters = int(truth.max()) + 1
    labels = KMeans(clusters, n_init=2, random_state=0).fit_predict(normalize(features)).astype(np.int32)
    numbers, unedited = np.arange(clusters, dtype=np.int32), np.zeros(len(labels), dtype=np.bool_)
    groups = Groups(labels, unedited, {}, numbers.tolist(), frozenset(), numbers, {}, frozenset())
    best = load_classifier("lite0")(torch.from_numpy(features)).softmax(dim=1).topk(CLASSES_KEPT, dim=1)
    words = ImageWords(best.indices.numpy().astype(np.uint16), best.values.numpy().astype(np.float16))
    return [(word, np.bincount(truth[labels == group])) for group, word in suggest_names(words, groups).items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("survive", "suggest"))
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    for file in options.files:
        {"survive": survive, "suggest": suggest}[options.what](file)


if __name__ == "__main__":
    main()
