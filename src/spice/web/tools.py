"""The operations of the explorer that need torch. The command passes them in: this package does not import torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from spice.progress import Progress
from spice.runs.export import Shape


class Proposal(NamedTuple):
    """The groups learned from corrections. They take effect with `accept`."""

    group: NDArray[np.int32]  # (N,) the group of each image
    accept: Callable[[], object]


class ExportBody(BaseModel, frozen=True):
    """What to export, and the name of the new folder or file beside the run."""

    shape: Shape
    name: Annotated[str, Field(pattern=r"^[^./\\\x00-\x1f][^/\\\x00-\x1f]*$", max_length=120)]
    kept: bool  # only the images that a check by hand keeps
    group: int | None  # only this group
    copied: bool  # copies instead of links


class Tools(NamedTuple):
    """The operations."""

    # The bytes of an image file, and the number of images wanted -> rows of the most similar images, similarities.
    nearest_to: Callable[[bytes, int], list[tuple[int, float]]]
    learn: Callable[[Progress], Proposal]
    # The number of groups, and whether to start from a cut of the merge tree -> a new result, which becomes current.
    regroup: Callable[[int, bool, Progress], object]
    # Joint training on the current result -> the name of a new result, which is not used yet.
    refine: Callable[[Progress], str]
    export: Callable[[ExportBody, Path], str]  # what to export, and where to -> a message
