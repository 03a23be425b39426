"""What corrections gain: a simulated person corrects groups, spice learns from it, and accuracy is measured.

First, the person names each group after the majority of its 20 most typical images, and merges groups with the same
name. Then, the person looks at the least typical image of each group in turn (lowest share of neighbors in the group).
If it is wrong, the person moves it to the group of its name, or to a new one. After every ten corrections, spice learns
from them (`spice learn`). Merges count as corrections.

    python benchmarks/corrections.py trash flowers --seeds 0 1 2          # collections of ../shared/data
    python benchmarks/corrections.py trash flowers --features FOLDER     # stored: frozen_features.py encode
"""

import argparse
import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.data.vectors import Vectors
from spice.evaluate.scores import accuracy
from spice.pipeline import cluster
from spice.pipeline.learn import accept, propose
from spice.presets import preset
from spice.runs import open_result
from spice.runs.editor import Editor
from spice.runs.edits import Merge, Move, Name
from spice.stages.groups.corrections import edits_before_learning

SEEN_TO_NAME = 20
PER_ROUND = 10
DATA = Path(__file__).parents[2] / "shared" / "data"


class Point(NamedTuple):
    """One point of the curve."""

    corrections: int
    accuracy: float
    edits_only: float  # the same corrections without learning
    moved: int  # images that learning moved
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collections", nargs="*", help="names of .tar files in the data folder, a folder per class")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--work", type=Path, default=Path("corrections.work"), help="run folders")
    parser.add_argument("--corrections", type=int, default=50)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--features", type=Path, help="folder of NAME.npz (features, truth), used in place of images")
    given = parser.parse_args()
    for name in given.collections:
        source = given.data / f"{name}.tar" if given.features is None else given.features / f"{name}.npz"
        curves = [_curve(source, given.work / f"{name}-{seed}", seed, given.corrections) for seed in given.seeds]
        shared = zip(*curves, strict=False)  # merges may leave a curve a point short
        means = [round(float(np.mean([point.accuracy for point in points])), 3) for points in shared]
        print(f"{name}: mean accuracy of seeds {given.seeds}: {means}", flush=True)


def _curve(source: Path, run: Path, seed: int, corrections: int) -> list[Point]:
    """Cluster and correct; print the accuracy after each round."""
    if source.suffix == ".npz":
        stored = np.load(source)
        truth: NDArray[np.int64] | None = stored["truth"]
        images: str | Vectors = Vectors(stored["features"].astype(np.float32), source.stem)
        clusters = len(np.unique(stored["truth"]))
    else:
        truth, images, clusters = None, str(source), len({path.split("/")[-2] for path in _names(source)})
    cluster(images, preset("standard", clusters=clusters, seed=seed), run, page=False)
    (run / "edits.json").unlink(missing_ok=True)
    truth = truth_of(open_result(run).labels.path) if truth is None else truth
    print(f"{source.stem}: {clusters} classes, {len(truth):,} images, seed {seed}")
    points = []
    for point in simulate(run, truth, corrections=corrections):
        points.append(point)
        print("  " + json.dumps(point._asdict()), flush=True)
    return points


def truth_of(paths: list[str]) -> NDArray[np.int64]:
    """The class of every image, from the name of its folder."""
    return np.unique([path.split("/")[-2] for path in paths], return_inverse=True)[1]


def simulate(run: Path, truth: NDArray[np.int64], *, corrections: int) -> Iterator[Point]:
    """Correct and learn; yields the accuracy at the start and after every round."""
    editor = Editor(run)
    yield _point(editor, truth, 0, 0, 0.0)
    done = _name_and_merge(editor, truth)
    while done < corrections:
        done = _correct(editor, truth, done, min(corrections, (done // PER_ROUND + 1) * PER_ROUND))
        started = time.monotonic()
        proposal = propose(run)
        seconds = time.monotonic() - started
        accept(proposal)
        yield _point(editor, truth, done, len(proposal.moved), seconds)


def _point(editor: Editor, truth: NDArray[np.int64], done: int, moved: int, seconds: float) -> Point:
    alone = editor.result.groups_after(edits_before_learning(editor.edits)).group
    return Point(
        done, round(accuracy(editor.groups.group, truth), 4), round(accuracy(alone, truth), 4), moved, round(seconds, 1)
    )


def _name_and_merge(editor: Editor, truth: NDArray[np.int64]) -> int:
    """Name groups by their most typical images, and merge those of one name. Returns the number of merges."""
    labels, merges = editor.result.labels, 0
    for number in list(editor.groups.existing):
        members = np.flatnonzero(editor.groups.group == number)
        seen = members[np.argsort(labels.prototype_rank[members], kind="stable")][:SEEN_TO_NAME]
        if not len(seen):
            continue
        name = str(np.bincount(truth[seen]).argmax())
        taken = [group for group, other in editor.groups.names.items() if other == name]
        editor.do(Merge(groups=[taken[0], number]) if taken else Name(group=number, name=name))
        merges += bool(taken)
    return merges


def _correct(editor: Editor, truth: NDArray[np.int64], done: int, until: int) -> int:
    """Look at the least typical image of each group in turn, and move those that are wrong."""
    for row in _least_typical_first(editor):
        if done >= until:
            break
        groups, name = editor.groups, str(truth[row])
        if groups.names.get(int(groups.group[row])) == name or groups.by_person[row]:
            continue
        target = next((group for group, other in groups.names.items() if other == name), None)
        after = editor.do(Move(images=[editor.base.image(row)], group=target))
        if target is None:
            editor.do(Name(group=int(after.group[row]), name=name))
        done += 1
    return done


def _least_typical_first(editor: Editor) -> list[int]:
    group = editor.groups.group
    neighbors = np.asarray(editor.result.neighbors)[:, : editor.result.answer.neighbors]
    share = (group[neighbors] == group[:, None]).mean(axis=1)
    lists = [
        rows[np.argsort(share[rows], kind="stable")]
        for rows in (np.flatnonzero(group == one) for one in np.unique(group))
    ]
    longest = max(len(rows) for rows in lists)
    return [int(rows[place]) for place in range(longest) for rows in lists if place < len(rows)]


def _names(source: Path) -> list[str]:
    with tarfile.open(source) as archive:
        return [member.name for member in archive if member.isfile()]


if __name__ == "__main__":
    main()
