"""A few labels from the user: they join the reliable ones, and name their clusters (semi-supervised).

These labels are there to be learned from. True labels for scoring are read by `evaluate` alone, and never come here.

Shapes: N images, R of them labeled, G given labels, K clusters, C names.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from spice.errors import UserError
from spice.label_table import plain_path
from spice.stages.joint.draws import Labeled


class GivenLabels(NamedTuple):
    """The user's labels, by position in the collection."""

    image: Tensor  # (G,) positions
    name: Tensor  # (G,) indices into `names`
    names: list[str]  # (C,)


def find_given(labels: Mapping[str, str], paths: Sequence[str]) -> GivenLabels:
    """The labels (path: name) by position. Each must belong to an image of the collection."""
    wanted = {plain_path(path): name for path, name in labels.items()}
    labeled = [(place, wanted.pop(plain)) for place, plain in enumerate(map(plain_path, paths)) if plain in wanted]
    if wanted:
        more = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
        raise UserError(
            f"there is no image {next(iter(wanted))}{more} for the given label; paths look like this: {paths[0]}"
        )
    names = sorted({name for _, name in labeled})
    image = torch.tensor([place for place, _ in labeled], dtype=torch.long)
    return GivenLabels(image, torch.tensor([names.index(name) for _, name in labeled], dtype=torch.long), names)


def match_labels(given: GivenLabels, predicted: Tensor, *, clusters: int) -> dict[str, int]:
    """The cluster of each name: the one that holds most of its images, one to one (Hungarian method).

    Needs no training beyond stage 2, so that names which cannot be matched are refused before stage 3 starts.

    Args:
        predicted: (N,) clusters from stage 2.
    """
    names = given.names
    if len(names) > clusters:
        raise UserError(f"the labels have {len(names)} names, but there are only {clusters} clusters; use more (-k)")
    counts = np.zeros((len(names), clusters), dtype=np.int64)
    np.add.at(counts, (given.name.numpy(), predicted[given.image].numpy()), 1)
    # As many labels as possible agree; among such matchings, prefer one where every name keeps an image.
    _, matched = linear_sum_assignment(counts * (clusters + 1) + (counts > 0), maximize=True)
    for name, cluster, own in zip(names, matched, counts, strict=True):
        if own[cluster] == 0:
            shared = int(own.argmax())
            other = names[int(np.flatnonzero(matched == shared)[0])]
            raise UserError(
                f"the images labeled {name!r} and {other!r} are both in cluster {shared}: "
                "use more clusters (-k), or leave out one of the names"
            )
    return {name: int(cluster) for name, cluster in zip(names, matched, strict=True)}


def merge_labels(labeled: Labeled, given: GivenLabels, matched: Mapping[str, int]) -> Labeled:
    """The reliable labels and the user's, which override the predicted labels of their images."""
    others = ~torch.isin(labeled.image, given.image)
    cluster = torch.tensor([matched[name] for name in given.names], dtype=torch.long)[given.name]  # (G,)
    image = torch.cat([labeled.image[others], given.image])
    order = image.argsort()
    return Labeled(image[order], torch.cat([labeled.cluster[others], cluster])[order])
