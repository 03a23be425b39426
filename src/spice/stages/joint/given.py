"""A few labels that the user gives: they join the reliable ones, and clusters get their names (semi-supervised).

These labels are meant to be learned from. True labels that a result is held against are `evaluate`'s, and never come
here.

Shapes: N images, R of them labeled, G given labels, K clusters, C names.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from spice.errors import UserError
from spice.label_table import plain_path
from spice.stages.joint.draws import Labeled


class Given(NamedTuple):
    """Labels found among the images of a collection."""

    image: Tensor  # (G,) positions
    name: NDArray[np.int64]  # (G,) numbers in `names`
    names: list[str]  # (C,)


class Joined(NamedTuple):
    """What joint training learns, and the cluster that each name means."""

    labeled: Labeled
    clusters: dict[str, int]


def find(given: Mapping[str, str], paths: Sequence[str]) -> Given:
    """The given labels (path: name) by position. Every one must be of an image that is there."""
    wanted = {plain_path(path): name for path, name in given.items()}
    found = [(place, wanted.pop(plain)) for place, plain in enumerate(map(plain_path, paths)) if plain in wanted]
    if wanted:
        more = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
        which = f"{next(iter(wanted))}{more}"
        raise UserError(f"a label is given for {which}, which is none of the images; they are called {paths[0]}, ...")
    names = sorted({name for _, name in found})
    numbers = np.array([names.index(name) for _, name in found], dtype=np.int64)
    return Given(torch.tensor([place for place, _ in found], dtype=torch.long), numbers, names)


def join(labeled: Labeled, given: Given, predicted: Tensor, *, clusters: int) -> Joined:
    """The given labels in place of what was thought of those images, beside the others' labels.

    A name is the cluster that most of its images lie in, one to one (Hungarian method on the given labels alone).

    Args:
        predicted: (N,) the second stage's clusters.
    """
    meant = _match(given, predicted[given.image].numpy(), clusters)
    cluster = torch.from_numpy(meant[given.name])
    others = ~torch.isin(labeled.image, given.image)
    image = torch.cat([labeled.image[others], given.image])
    order = image.argsort()
    together = torch.cat([labeled.cluster[others], cluster])
    names = {name: int(number) for name, number in zip(given.names, meant, strict=True)}
    return Joined(Labeled(image[order], together[order]), names)


def _match(given: Given, predicted: NDArray[np.int64], clusters: int) -> NDArray[np.int64]:
    """The cluster of each name: (C,)."""
    if len(given.names) > clusters:
        raise UserError(
            f"the labels have {len(given.names)} names, and there are only {clusters} clusters; ask for more (-k)"
        )
    counts = np.zeros((len(given.names), clusters), dtype=np.int64)
    np.add.at(counts, (given.name, predicted), 1)
    # As many labels as possible agree; of such matchings, one that leaves no name without an image of its own.
    rows, meant = linear_sum_assignment(counts * (clusters + 1) + (counts > 0), maximize=True)
    for name, cluster in zip(rows, meant, strict=True):
        if counts[name, cluster] == 0:
            taken = int(counts[name].argmax())
            rival = given.names[int(np.flatnonzero(meant == taken)[0])]
            raise UserError(
                f"the images labeled {given.names[name]!r} lie in cluster {taken}, which is {rival!r}: "
                "the clusters do not tell the two apart; ask for more clusters (-k), or leave one of the names out"
            )
    return np.asarray(meant, dtype=np.int64)
