"""`spice bench howmany`: the number of groups by every criterion, on collections of features and uneven samples.

True labels are used to draw uneven samples and to score, never to choose.

Shapes: N images, D feature width.
"""

import json
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from spice.benchmark.howmany.criteria import CRITERIA, NEEDS, Sweep
from spice.errors import UserError
from spice.files import write_text
from spice.progress import Progress, silent
from spice.stages.groups.curve import numbers_to_try
from spice.stages.groups.howmany import highest_count, how_many, principal_components

OURS = "spice"
DIGITS = "digits"
RESTARTS = 5
IMAGES_PER_CLASS = 30  # at least; a class with fewer is too small to find


class Cell(BaseModel):
    """One criterion on one collection with one seed."""

    data: str
    criterion: str
    seed: int
    images: int = 3000  # at most, as requested; cells of older versions do not say, and 3,000 was the default
    classes: int
    found: int | None  # None: no clear groups
    listed: list[int]  # all numbers that the criterion suggests
    error: float | None  # |ln found / classes|
    quality: float | None  # adjusted Rand index with the found number of groups, divided by that with the true one


class Collection(NamedTuple):
    """Features of a collection, and the class of every image."""

    name: str
    features: NDArray[np.float32]  # (N, D)
    truth: NDArray[np.int64]  # (N,)


def run(
    sources: Sequence[str],
    out: Path,
    *,
    seeds: Sequence[int],
    images: int,
    criteria: Sequence[str] = (),
    progress: Progress = silent,
) -> Path:
    """Measure some criteria (default: all) on every source and a 10:1 sample of it. Cells in `out` are reused."""
    known = (OURS, *available())
    for name in criteria:
        if name not in known:
            raise UserError(f"unknown criterion {name!r}; choose from {', '.join(known)}")
    jobs = [(source, uneven, seed) for seed in seeds for source in sources for uneven in (False, True)]
    path = out / "howmany.jsonl"
    done = {(cell.data, cell.criterion, cell.seed) for cell in read_cells(path, images=images)}
    for number, (source, uneven, seed) in enumerate(jobs):
        name = f"{name_of(source)}{', 10:1' if uneven else ''}"
        missing = [criterion for criterion in (criteria or known) if (name, criterion, seed) not in done]
        if missing and not (uneven and is_uneven(load(source))):
            found = draw(source, uneven=uneven, images=images, seed=seed)
            measured = cells(found._replace(name=name), missing, images=images, seed=seed)
            lines = [cell.model_dump_json() for cell in measured]
            out.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
        progress("number of groups", number + 1, len(jobs))
    return path


def read_cells(path: Path, *, images: int) -> list[Cell]:
    """The saved cells with this number of images."""
    if not path.exists():
        return []
    saved = [Cell.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [cell for cell in saved if cell.images == images]


def cells(collection: Collection, criteria: Sequence[str], *, images: int, seed: int) -> Iterator[Cell]:
    """Measure these criteria on one collection."""
    points = principal_components(collection.features, np.random.default_rng(seed))
    sweep = Sweep(points, numbers_to_try(2, highest_count(len(points), 2, None)), seed=seed)
    classes, indices = len(np.unique(collection.truth)), dict[int, float]()
    for name in criteria:
        if name == OURS:
            answer = how_many(collection.features, seed=seed)
            number, listed = answer.clusters, [peak.clusters for peak in answer.candidates]
        else:
            number = CRITERIA[name](sweep)
            listed = [number]
        for count in (classes, number or classes):
            if count not in indices:
                indices[count] = _index(points, collection.truth, count, seed)
        yield Cell(
            data=collection.name,
            criterion=name,
            seed=seed,
            images=images,
            classes=classes,
            found=number,
            listed=listed,
            error=None if number is None else abs(float(np.log(number / classes))),
            quality=None if number is None else indices[number] / max(indices[classes], 1e-9),
        )


def available() -> list[str]:
    """The criteria whose packages are installed."""
    return [name for name in CRITERIA if all(find_spec(package) for package in NEEDS.get(name, ()))]


def is_uneven(collection: Collection) -> bool:
    """Whether the largest class has more than ten times the images of the smallest, so that no sample is 10:1."""
    sizes = np.bincount(collection.truth)
    return bool(sizes.max() > 10 * sizes.min())


def draw(source: str, *, uneven: bool, images: int, seed: int) -> Collection:
    """A random sample of at most `images` images (30 per class if that is more), even or with sizes from 10 to 1."""
    found, random = load(source), np.random.default_rng([seed, 7])
    images = max(images, IMAGES_PER_CLASS * (int(found.truth.max()) + 1))
    if not uneven:
        rows = random.permutation(len(found.truth))[:images]
    else:
        classes = random.permutation(found.truth.max() + 1)
        shares = 10.0 ** (-np.arange(len(classes)) / max(len(classes) - 1, 1))
        sizes = np.bincount(found.truth)[classes]
        largest = min(float((sizes / shares).min()), images / float(shares.sum()))
        members = [random.permutation(np.flatnonzero(found.truth == each)) for each in classes]
        taken = [max(2, round(largest * share)) for share in shares]
        rows = np.concatenate([of[:count] for of, count in zip(members, taken, strict=True)])
    rows = np.sort(rows)
    return found._replace(features=found.features[rows], truth=found.truth[rows])


def load(source: str) -> Collection:
    """A file, several files joined by +, or the digits of scikit-learn."""
    if source == DIGITS:
        table = load_digits()
        return Collection(DIGITS, table.data.astype(np.float32), table.target.astype(np.int64))
    parts = [_read(Path(part)) for part in source.split("+")]
    offsets = np.cumsum([0, *(int(part.truth.max()) + 1 for part in parts[:-1])])
    truth = np.concatenate([part.truth + offset for part, offset in zip(parts, offsets, strict=True)])
    return Collection(name_of(source), np.concatenate([part.features for part in parts]), truth)


def name_of(source: str) -> str:
    """`features/imagenette.npz+features/fruits.npz` -> `imagenette + fruits`."""
    return " + ".join(Path(part).stem for part in source.split("+"))


def table(saved: Sequence[Cell]) -> str:
    """A Markdown table of the numbers that every criterion found, one per seed, and the mean errors."""
    data = list(dict.fromkeys(cell.data for cell in saved))
    criteria = list(dict.fromkeys(cell.criterion for cell in saved))
    lines = [f"| collection | K | {' | '.join(criteria)} |", "|---|" + "---:|" * (len(criteria) + 1)]
    for name in data:
        own = [cell for cell in saved if cell.data == name]
        row = [_found([cell for cell in own if cell.criterion == criterion]) for criterion in criteria]
        lines.append(f"| {name} | {own[0].classes} | {' | '.join(row)} |")
    for title, field in (("mean of abs(ln K̂/K)", "error"), ("mean of ARI(K̂) / ARI(K)", "quality")):
        means = [_mean(saved, criterion, field) for criterion in criteria]
        lines.append(f"| **{title}** | | {' | '.join(means)} |")
    return "\n".join(lines)


def _mean(saved: Sequence[Cell], criterion: str, field: str) -> str:
    values = [getattr(cell, field) for cell in saved if cell.criterion == criterion and cell.found is not None]
    return f"{np.mean(values):.2f}" if values else "none"


def save_table(saved: Sequence[Cell], path: Path) -> None:
    """Write the cells as one JSON file."""
    write_text(path, json.dumps([cell.model_dump() for cell in saved], indent=1) + "\n")


def _found(own: list[Cell]) -> str:
    return ", ".join("none" if cell.found is None else str(cell.found) for cell in own)


def _index(points: NDArray[np.float32], truth: NDArray[np.int64], clusters: int, seed: int) -> float:
    labels = KMeans(clusters, n_init=RESTARTS, random_state=seed).fit_predict(points)
    return float(adjusted_rand_score(truth, labels))


def _read(path: Path) -> Collection:
    wrong = UserError(f"{path} is not an .npz file with the arrays `features` (N, D) and `truth` (N,)")
    try:
        with np.load(path) as file:
            features, truth = file["features"], file["truth"]
    # A file that is no archive, or a damaged one: errors of zipfile, zlib, Python's tokenizer, ...
    except Exception as error:
        raise wrong from error
    if features.ndim != 2 or truth.shape != (len(features),):
        raise wrong
    return Collection(path.stem, features.astype(np.float32), np.unique(truth, return_inverse=True)[1].astype(np.int64))
