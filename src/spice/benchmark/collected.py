"""The images of a table, decoded, and their true labels, which are not read until they are needed."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.benchmark.choice import Choice, WhichImages
from spice.benchmark.datasets import Dataset, Images, Part, load
from spice.data import ImageStore, ingest
from spice.errors import UserError
from spice.progress import Progress, silent
from spice.randomness import generator

Labels = NDArray[np.int64]


class Collected(NamedTuple):
    """Images, and functions that read their true labels."""

    learn: ImageStore
    scored: ImageStore  # in the whole setting, the same as `learn`
    extra: ImageStore | None  # for stages 1 and 3 only
    known: Callable[[], Labels]  # of `learn`, for methods that are given labels, and for the linear probe
    truth: Callable[[], Labels]  # of `scored`, for the scores


def collect(choice: Choice, which: WhichImages, folder: Path, *, progress: Progress = silent) -> Collected:
    """Decode the images of a table into `folder`, or reuse those decoded before."""
    dataset = load(choice.dataset)
    train, test = _parts(dataset, choice, which)

    def stored(images: Images, name: str) -> ImageStore:
        return ingest(images, size=choice.pixels, folder=folder / name, progress=progress)

    extra = None if dataset.unlabeled is None else stored(dataset.unlabeled, "extra")
    if which == "whole":
        whole = train if test is None else train.merged(test)
        store = stored(whole.images, "whole")
        return Collected(store, store, extra, _labels_of(whole, store), _labels_of(whole, store))
    assert test is not None
    learn, scored = stored(train.images, "train"), stored(test.images, "test")
    return Collected(learn, scored, extra, _labels_of(train, learn), _labels_of(test, scored))


def few_labels(labels: Labels, count: int, *, seed: int) -> Tensor:
    """Positions of `count` images, as evenly over the classes as possible, (n,)."""
    order = torch.randperm(len(labels), generator=generator(seed, "few labels")).numpy()
    classes = np.unique(labels)
    by_class = [order[labels[order] == each] for each in classes]
    quotas = [count // len(classes) + (place < count % len(classes)) for place in range(len(classes))]
    chosen = np.concatenate([rows[:quota] for rows, quota in zip(by_class, quotas, strict=True)])
    return torch.from_numpy(np.sort(chosen))


def _parts(dataset: Dataset, choice: Choice, which: WhichImages) -> tuple[Part, Part | None]:
    """Train and test images, subsampled as set. Without a test set, training images are held out."""
    if dataset.test is not None:
        return _subset(dataset.train, choice.train, "train"), _subset(dataset.test, choice.test, "test")
    if which == "whole":
        return _subset(dataset.train, choice.train, "train"), None
    if choice.train is None or choice.test is None:
        raise UserError(f"{dataset.name} has no test set, so only the whole setting applies")
    drawn = _drawn(len(dataset.train), choice.train + choice.test, "held out")
    return _rows(dataset.train, np.sort(drawn[: choice.train])), _rows(dataset.train, np.sort(drawn[choice.train :]))


def _subset(part: Part, count: int | None, name: str) -> Part:
    return part if count is None or count >= len(part) else _rows(part, np.sort(_drawn(len(part), count, name)))


def _drawn(images: int, count: int, purpose: str) -> Labels:
    """A random subset that is the same for every seed: seeds show how methods vary, not how subsets do."""
    return torch.randperm(images, generator=generator(0, "images of a table", purpose))[:count].numpy()


def _rows(part: Part, rows: Labels) -> Part:
    images = part.images[rows] if isinstance(part.images, np.ndarray) else [part.images[row] for row in rows.tolist()]
    return Part(images, part.classes, lambda: part.read_labels()[rows])


def _labels_of(part: Part, store: ImageStore) -> Callable[[], Labels]:
    """True labels in the order of the store."""
    return lambda: part.truth().labels[store.collection.numbers]
