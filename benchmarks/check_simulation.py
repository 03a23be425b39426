"""Simulates `spice check` with true labels: are its intervals, chances and kept images right?

    python benchmarks/check_simulation.py RUN=TRUTH [RUN=TRUTH ...] [--checks 200] [--answers 100]

RUN is a run folder. TRUTH is `folders` (the class is the name of an image's folder) or a .npy file with one class per
image, in the order of the source. The simulated person answers "right" if an image is of the class that most center
images of its group have.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spice.runs import Labels, open_result
from spice.trust import check

CENTER_IMAGES = 8  # shown next to the image in question
TARGETS = (0.80, 0.90, 0.95)
BINS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN=TRUTH")
    parser.add_argument("--checks", type=int, default=200)
    parser.add_argument("--answers", type=int, default=100)
    given = parser.parse_args()
    kept = "".join(f"{f'keep {target}':>20}" for target in TARGETS)
    print(f"{'run':<16}{'right':>7}{'reliable':>9}{'covered':>9}{'width':>7}{'groups':>8}{'error':>13}{kept}")
    for pair in given.runs:
        run, truth = pair.rsplit("=", maxsplit=1)
        labels = open_result(Path(run)).labels
        _simulate(Path(run).stem, labels, right_answers(labels, truth), checks=given.checks, answers=given.answers)


def classes_of(labels: Labels, truth: str) -> NDArray[np.int64]:
    """The true class of every image, numbered from 0."""
    if truth == "folders":
        return np.unique([path.split("/")[-2] for path in labels.path], return_inverse=True)[1]
    return np.unique(np.load(truth)[[int(path) for path in labels.path]], return_inverse=True)[1]


def right_answers(labels: Labels, truth: str) -> NDArray[np.bool_]:
    """Whether each image is of the class that most center images of its group have."""
    classes = classes_of(labels, truth)
    right = np.zeros(len(classes), dtype=np.bool_)
    for number in np.unique(labels.cluster):
        members = labels.cluster == number
        centers = classes[members & (labels.prototype_rank < CENTER_IMAGES)]
        right[members] = classes[members] == np.bincount(centers).argmax()
    return right


def calibration_error(chance: NDArray[np.float32], right: NDArray[np.bool_]) -> float:
    """Expected calibration error, in percentage points, with ten bins of equal width."""
    bins = np.minimum((chance * BINS).astype(np.int64), BINS - 1)
    gap = np.bincount(bins, chance, minlength=BINS) - np.bincount(bins, right, minlength=BINS)
    return float(100 * np.abs(gap).sum() / len(right))


def _simulate(name: str, labels: Labels, right: NDArray[np.bool_], *, checks: int, answers: int) -> None:
    covered, widths, errors, pure = [], [], [], []
    kept: dict[float, list[tuple[int, bool]]] = {target: [] for target in TARGETS}
    clusters = int(labels.cluster.max()) + 1
    purity = [right[labels.cluster == number].mean() for number in range(clusters)]
    for seed in range(checks):
        rows = check.draw(labels.cluster, labels.chance, answers, seed=seed)
        found = check.accuracy(labels.chance, rows, right[rows])
        assert found is not None
        covered.append(found.low <= right.mean() <= found.high)
        widths.append(found.high - found.low)
        errors.append(calibration_error(check.recalibrate(labels.chance, rows, right[rows]), right))
        groups = check.purities(labels.cluster, rows, right[rows], clusters)
        pure += [group.low <= true <= group.high for group, true in zip(groups, purity, strict=True) if group]
        for target in TARGETS:
            kept[target].append(_kept(labels, rows, right, target))
    before = calibration_error(labels.chance, right)
    reliable = right[labels.reliable].mean() if labels.reliable.any() else np.nan
    means = (np.mean(found, axis=0) for found in kept.values())
    promises = "".join(f"{met:>8.0%} ({images / len(right):>4.0%} kept)" for images, met in means)
    print(
        f"{name:<16}{right.mean():>7.3f}{reliable:>9.3f}{np.mean(covered):>9.1%}{np.mean(widths):>7.3f}"
        f"{np.mean(pure) if pure else np.nan:>8.1%}{before:>6.1f} ->{np.mean(errors):>4.1f}{promises}",
        flush=True,
    )


def _kept(labels: Labels, rows: NDArray[np.int64], right: NDArray[np.bool_], target: float) -> tuple[int, bool]:
    """How many images are kept, and whether they are as accurate as promised. If none are kept, they are."""
    found = check.keep(labels.chance, rows, right[rows], target=target)
    if found.threshold is None:
        return 0, True
    inside = labels.chance >= found.threshold
    inside[rows[~right[rows]]] = False  # known to be wrong
    return found.images, bool(right[inside].mean() >= target)


if __name__ == "__main__":
    main()
