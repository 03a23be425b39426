"""What the explorer computes with torch: functions that the command passes in. This package does not import torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from spice.progress import Progress
from spice.runs.export import Shape


class Proposal(NamedTuple):
    """What was learned from corrections. It takes effect with `accept`."""

    group: NDArray[np.int32]  # (N,) the group of each image
    accept: Callable[[], object]


class ExportBody(BaseModel, frozen=True):
    """What to write, and how the new folder or file beside the run is called."""

    shape: Shape
    name: Annotated[str, Field(pattern=r"^[^./\\\x00-\x1f][^/\\\x00-\x1f]*$", max_length=120)]
    kept: bool  # only images that a check by hand keeps
    group: int | None  # only this group
    copied: bool  # instead of links


class Tools(NamedTuple):
    """What can be computed."""

    # The bytes of an image file, and how many images are wanted -> rows of the most similar images, similarities.
    nearest_to: Callable[[bytes, int], list[tuple[int, float]]]
    learn: Callable[[Progress], Proposal]
    # Another number of groups, from a cut of the merge tree or not, which becomes the current result.
    regroup: Callable[[int, bool, Progress], object]
    # Joint training on the current result -> the name of the result that it made, which is not used yet.
    refine: Callable[[Progress], str]
    export: Callable[[ExportBody, Path], str]  # what, and where to -> what was written, in words
