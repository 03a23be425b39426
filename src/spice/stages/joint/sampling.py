"""The batches of joint training: labeled images drawn by weight, unlabeled ones from shuffles of all (paper III-C).

Shapes: N images, R of them labeled; L labeled and U unlabeled images in a step; K clusters.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from spice.engine.run import Run
from spice.errors import UserError
from spice.settings import JointSettings


class Labeled(NamedTuple):
    """The images whose labels stay fixed: reliable ones, and those that a person placed."""

    image: Tensor  # (R,) positions in the collection
    cluster: Tensor  # (R,)

    def override(self, placed: Mapping[str, int], paths: Sequence[str]) -> "Labeled":
        """These labels, overridden by those of images that a person placed (path: cluster).

        These are labels to learn from. True labels, for scoring, are read by `evaluate` alone.
        """
        rows = [row for row, path in enumerate(paths) if path in placed]
        by_person = torch.tensor(rows, dtype=torch.long)
        cluster = torch.tensor([placed[paths[row]] for row in rows], dtype=torch.long)
        kept = ~torch.isin(self.image, by_person)
        image = torch.cat([self.image[kept], by_person])
        order = image.argsort()
        return Labeled(image[order], torch.cat([self.cluster[kept], cluster])[order])


class StepImages(NamedTuple):
    """The images of one step, as positions in the collection."""

    labeled: Tensor  # (L,)
    clusters: Tensor  # (L,)
    unlabeled: Tensor  # (U,)


class StepSampler:
    """Draws the images of a step, which depend on (seed, step) alone: a resumed run sees the same ones."""

    def __init__(self, images: int, labeled: Labeled, settings: JointSettings, run: Run) -> None:
        if len(labeled.image) == 0:
            raise UserError("no image is reliable, so joint training cannot start; lower the reliability threshold")
        if len(labeled.image) != len(labeled.cluster):
            raise ValueError(f"{len(labeled.image)} images do not match {len(labeled.cluster)} labels")
        self.images, self.labeled, self.settings, self.run = images, labeled, settings, run
        self.own = slice(run.processes.rank, None, run.processes.count)
        for size in (settings.labeled, settings.unlabeled):
            run.processes.refuse_uneven(size)
        batch = torch.arange(settings.labeled + settings.unlabeled)
        self.rows = torch.cat([batch[: settings.labeled][self.own], batch[settings.labeled :][self.own]])
        self.weights = draw_weights(labeled.cluster, largest_share=settings.largest_share)

    def sample(self, step: int) -> StepImages:
        """This process's share of the images of a step."""
        random = self.run.generator("joint", "labeled", step)
        drawn = torch.multinomial(self.weights, self.settings.labeled, replacement=True, generator=random)[self.own]
        return StepImages(self.labeled.image[drawn], self.labeled.cluster[drawn], self._unlabeled(step)[self.own])

    def _unlabeled(self, step: int) -> Tensor:
        """The next U images of an endless sequence of shuffles, so that U need not divide N."""
        start = step * self.settings.unlabeled
        places = torch.arange(start, start + self.settings.unlabeled)
        passes = places // self.images
        numbers = range(int(passes[0]), int(passes[-1]) + 1)
        return torch.cat([self._shuffle(number)[places[passes == number] % self.images] for number in numbers])

    def _shuffle(self, number: int) -> Tensor:
        return torch.randperm(self.images, generator=self.run.generator("joint", "order", number))


def draw_weights(clusters: Tensor, *, largest_share: float | None) -> Tensor:
    """The probability that each labeled image is drawn: (R,) -> (R,).

    Equal for all images, except that no cluster is drawn more than `largest_share` times as often as the median one.
    """
    counts = clusters.bincount()
    present = counts[counts > 0].double()
    cap = present.max() if largest_share is None else largest_share * present.median()
    return ((counts.clamp(max=cap) / counts)[clusters] / counts.clamp(max=cap).sum()).double()
