"""True labels, from the images' folders or from a CSV file."""

import os.path
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.errors import UserError
from spice.label_table import plain_path, read_label_table


class Truth(NamedTuple):
    """The true class of some or all images of a collection."""

    positions: NDArray[np.int64]  # (n,) which of the images have a true label, ascending
    labels: NDArray[np.int64]  # (n,) its number in `classes`
    classes: tuple[str, ...]  # in alphabetical order


def from_folders(paths: Sequence[str]) -> Truth:
    """The class of an image is the name of its folder: `train/dog/7.jpg` is a dog."""
    # Not `plain_path`: outside Windows, a backslash is part of a file name.
    folders = [PurePath(os.path.normpath(path)).parent.name for path in paths]
    loose = [path for path, folder in zip(paths, folders, strict=True) if not folder]
    if loose:
        count = "1 image is" if len(loose) == 1 else f"{len(loose):,} images are"
        raise UserError(f"{count} not in a class folder, such as {loose[0]}; give the labels as a CSV file")
    if len(set(folders)) < 2:
        inside = f"all images are in one folder, {folders[0]}" if folders else "there are no images"
        raise UserError(f"{inside}: need at least two class folders, or a CSV file with columns path,label")
    return _truth(list(range(len(paths))), folders)


def from_csv(file: Path, paths: Sequence[str]) -> Truth:
    """The class of an image is read from a CSV file with columns `path` and `label`; other images have none."""
    labels = read_label_table(file)
    positions = [position for position, path in enumerate(paths) if plain_path(path) in labels]
    if not positions:
        listed, image = next(iter(labels), "nothing"), paths[0] if paths else "nothing"
        raise UserError(f"{file} has no label for any of these images; it lists {listed}, the images are {image}, ...")
    return _truth(positions, [labels[plain_path(paths[position])] for position in positions])


def _truth(positions: list[int], names: list[str]) -> Truth:
    classes = tuple(sorted(set(names)))
    number = {name: place for place, name in enumerate(classes)}
    labels = np.array([number[name] for name in names], dtype=np.int64)
    return Truth(np.array(positions, dtype=np.int64), labels, classes)
