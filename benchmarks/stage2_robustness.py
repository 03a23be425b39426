"""Never worse than k-means? The second stage on uneven, small and hard draws of the cached collections.

    python benchmarks/stage2.py views --data ../shared/data --folder /tmp/stage2        (encode once)
    OMP_NUM_THREADS=1 python benchmarks/stage2_robustness.py --folder /tmp/stage2 [--seeds 2] [--only "cifar K4"]

Every seed draws other images and, where a case names a number of classes, other classes; k-means and SPICE-s see the
same. Labels are read for the final score alone. Prints the robustness table of docs/lab-notes.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.evaluate import score
from spice.presets import standard_heads
from spice.stages.kmeans import kmeans
from spice.stages.views import Views
from stage2 import head_labels, header, opened, row, trained_quietly


class Case(NamedTuple):
    """What is drawn: collections joined, classes (which, or how many), images in all, and how uneven."""

    collections: tuple[str, ...]
    classes: int | tuple[int, ...]
    images: int
    # Largest class by the smallest, sizes falling geometrically; one class of half the images; a third with 10 each.
    uneven: int | Literal["giant", "tiny"]


IMAGENETTE, FRUITS, CIFAR, FASHION = ("imagenette",), ("fruits",), ("cifar10-test",), ("fashion-test",)
CASES = {
    "imagenette geo10": Case(IMAGENETTE, 10, 1500, 10),
    "fruits geo10 N400": Case(FRUITS, 15, 400, 10),
    "cifar geo10": Case(CIFAR, 10, 2000, 10),
    "fashion geo10": Case(FASHION, 10, 2000, 10),
    "imagenette K2": Case(IMAGENETTE, 2, 500, 1),
    "imagenette K2 1:9": Case(IMAGENETTE, 2, 600, 9),
    "cifar K2 1:4": Case(CIFAR, 2, 1000, 4),
    "fashion K4 geo5": Case(FASHION, 4, 1500, 5),
    "cifar K4": Case(CIFAR, 4, 600, 1),
    "cifar K4 geo4": Case(CIFAR, 4, 2000, 4),
    "imagenette giant": Case(IMAGENETTE, 10, 1100, "giant"),
    "imagenette+fruits K25 geo5": Case(IMAGENETTE + FRUITS, 25, 2500, 5),
    "cifar+fashion K20": Case(CIFAR + FASHION, 20, 2000, 1),
    "fruits tiny": Case(FRUITS, 15, 1500, "tiny"),
    "cifar N500": Case(CIFAR, 10, 500, 1),
    "cifar animals": Case(CIFAR, (2, 3, 4, 5, 6, 7), 3000, 2),
    "fashion tops": Case(FASHION, (0, 2, 3, 4, 6), 2500, 2),
    "fashion N500 geo4": Case(FASHION, 10, 500, 4),
}


def drawn(name: str, seed: int, folder: Path) -> tuple[Views, NDArray[np.int64]]:
    """Views and true classes of the images that this seed draws for a case."""
    case = CASES[name]
    parts = [opened(folder, collection) for collection in case.collections]
    before = np.cumsum([0, *(part.clusters for part in parts)])
    truth = np.concatenate([part.truth + first for part, first in zip(parts, before, strict=False)])
    random = np.random.default_rng([seed, sum(map(ord, name))])
    classes = random.permutation(before[-1])[: case.classes] if isinstance(case.classes, int) else case.classes
    classes = random.permutation(classes)
    images = [
        random.permutation(np.flatnonzero(truth == each))[:size]
        for each, size in zip(classes, sizes(case, len(classes)), strict=True)
    ]
    chosen = np.random.default_rng(0).permutation(np.concatenate(images))
    plain = np.concatenate([part.views.plain for part in parts])[chosen]
    weak, strong = (
        np.concatenate([getattr(part.views, kind) for part in parts], axis=1)[:, chosen] for kind in ("weak", "strong")
    )
    return Views(plain, weak, strong), np.unique(truth[chosen], return_inverse=True)[1]


def sizes(case: Case, classes: int) -> NDArray[np.int64]:
    if case.uneven == "giant":
        return np.array([case.images // 2, *[case.images // 2 // (classes - 1)] * (classes - 1)])
    if case.uneven == "tiny":
        return np.array([10] * (classes // 3) + [case.images // classes] * (classes - classes // 3))
    weights = np.geomspace(case.uneven, 1, classes)
    return np.maximum(2, np.round(case.images * weights / weights.sum())).astype(np.int64)  # type: ignore[no-any-return]


def measure(name: str, seed: int, folder: Path) -> tuple[float, float, float, int]:
    """ACC of k-means and of SPICE-s, processor seconds of the latter, images."""
    views, truth = drawn(name, seed, folder)
    clusters = int(truth.max()) + 1
    started = time.process_time()
    labels = head_labels(trained_quietly(views, standard_heads(clusters), seed), views)[0]
    seconds = time.process_time() - started
    return score(kmeans(views.plain, clusters, seed=seed), truth).acc, score(labels, truth).acc, seconds, len(truth)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "stage2")
    arguments.add_argument("--seeds", type=int, default=2)
    arguments.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    given = arguments.parse_args()
    header("case", "k-means", "SPICE-s", "gain", "worst gain", "s", "images")
    gains = []
    for name in given.only:
        rows = np.array([measure(name, seed, given.folder) for seed in range(given.seeds)])
        gain = rows[:, 1] - rows[:, 0]
        gains.extend(gain)
        figures = [rows[:, 0].mean(), rows[:, 1].mean(), gain.mean(), gain.min(), rows[:, 2].mean()]
        row(name, figures, f"{int(rows[0, 3]):,}")
    print(f"mean gain {np.mean(gains):+.3f}, worst {np.min(gains):+.3f}, {np.sum(np.array(gains) < 0)} below k-means")


if __name__ == "__main__":
    main()
