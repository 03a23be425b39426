"""What the explorer computes with torch: functions that the command hands in, since this package does without it."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spice.progress import Progress


class Proposal(NamedTuple):
    """What was learned from corrections. Nothing of it counts before `accept`."""

    group: NDArray[np.int32]  # (N,) the group of each image
    accept: Callable[[], object]


class Tools(NamedTuple):
    """What can be computed."""

    # The bytes of an image file, and how many images are wanted -> rows of the most similar images, similarities.
    nearest_to: Callable[[bytes, int], list[tuple[int, float]]]
    learn: Callable[[Progress], Proposal]
    shapes: tuple[str, ...]  # what `export` can write
    # A shape, where to, whether kept images only, whether images are copied -> what was written, in words.
    export: Callable[[str, Path, bool, bool], str]
