"""The images of a step of joint training: labeled ones by weight, all images in turn (paper III-C).

Shapes: N images, R of them labeled; L labeled and U other images in a step; K clusters.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from spice.engine.run import Run
from spice.errors import UserError
from spice.settings import JointSettings


class Labeled(NamedTuple):
    """The images whose labels stay fixed: the reliable ones, and those that the user labeled."""

    image: Tensor  # (R,) positions in the collection
    cluster: Tensor  # (R,)

    def override(self, placed: Mapping[str, int], paths: Sequence[str]) -> "Labeled":
        """These labels, overridden by those of images that a person placed (path: cluster).

        A person's labels are given to learn from. True labels, for scoring, are read by `evaluate` alone.
        """
        rows = [row for row, path in enumerate(paths) if path in placed]
        by_person = torch.tensor(rows, dtype=torch.long)
        cluster = torch.tensor([placed[paths[row]] for row in rows], dtype=torch.long)
        others = ~torch.isin(self.image, by_person)
        image = torch.cat([self.image[others], by_person])
        order = image.argsort()
        return Labeled(image[order], torch.cat([self.cluster[others], cluster])[order])


class StepImages(NamedTuple):
    """The images of one step."""

    labeled: Tensor  # (L,) positions in the collection
    clusters: Tensor  # (L,)
    others: Tensor  # (U,)


class StepSampler:
    """Draws the images of a step: a function of (seed, step), so that a resumed run sees the same ones."""

    def __init__(self, images: int, labeled: Labeled, settings: JointSettings, run: Run) -> None:
        if len(labeled.image) == 0:
            raise UserError("no image is reliable, so joint training cannot start; lower the reliability threshold")
        if len(labeled.image) != len(labeled.cluster):
            raise ValueError(f"{len(labeled.image)} images do not match {len(labeled.cluster)} labels")
        self.images, self.labeled, self.settings, self.run = images, labeled, settings, run
        self.own = slice(run.processes.rank, None, run.processes.count)
        for size in (settings.labeled, settings.unlabeled):
            run.processes.refuse_uneven(size)
        every = torch.arange(settings.labeled + settings.unlabeled)
        self.rows = torch.cat([every[: settings.labeled][self.own], every[settings.labeled :][self.own]])
        self.weights = draw_weights(labeled.cluster, largest_share=settings.largest_share)

    def sample(self, step: int) -> StepImages:
        """This process's part of the images of a step."""
        random = self.run.generator("joint", "labeled", step)
        drawn = torch.multinomial(self.weights, self.settings.labeled, replacement=True, generator=random)[self.own]
        return StepImages(self.labeled.image[drawn], self.labeled.cluster[drawn], self._others(step)[self.own])

    def _others(self, step: int) -> Tensor:
        """The next U images of one endless sequence of shuffles, so that U need not divide N."""
        start = step * self.settings.unlabeled
        places = torch.arange(start, start + self.settings.unlabeled)
        passes = places // self.images
        numbers = range(int(passes[0]), int(passes[-1]) + 1)
        return torch.cat([self._shuffle(number)[places[passes == number] % self.images] for number in numbers])

    def _shuffle(self, number: int) -> Tensor:
        return torch.randperm(self.images, generator=self.run.generator("joint", "order", number))


def draw_weights(clusters: Tensor, *, largest_share: float | None) -> Tensor:
    """The probability of each labeled image to be drawn: (R,) -> (R,).

    Equal for all images, except that no cluster is drawn more than `largest_share` times as often as the median one.
    """
    counts = clusters.bincount()
    present = counts[counts > 0].double()
    cap = present.max() if largest_share is None else largest_share * present.median()
    return ((counts.clamp(max=cap) / counts)[clusters] / counts.clamp(max=cap).sum()).double()
