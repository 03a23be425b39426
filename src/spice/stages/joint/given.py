"""Images that a person placed: their labels join the reliable ones (semi-supervised).

These labels are there to be learned from. True labels for scoring are read by `evaluate` alone, and never come here.

Shapes: N images, R of them labeled.
"""

from collections.abc import Mapping, Sequence

import torch

from spice.stages.joint.draws import Labeled


def merge_labels(labeled: Labeled, placed: Mapping[str, int], paths: Sequence[str]) -> Labeled:
    """The reliable labels, and those of the images (path: cluster) that a person placed, which override them."""
    rows = [row for row, path in enumerate(paths) if path in placed]
    given = torch.tensor(rows, dtype=torch.long)
    cluster = torch.tensor([placed[paths[row]] for row in rows], dtype=torch.long)
    others = ~torch.isin(labeled.image, given)
    image = torch.cat([labeled.image[others], given])
    order = image.argsort()
    return Labeled(image[order], torch.cat([labeled.cluster[others], cluster])[order])
