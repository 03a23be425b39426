"""What the explorer computes with torch: functions that the command hands in, since this package does without it."""

from collections.abc import Callable
from typing import NamedTuple


class Tools(NamedTuple):
    """What can be computed."""

    # The bytes of an image file, and how many images are wanted -> rows of the most similar images, similarities.
    nearest_to: Callable[[bytes, int], list[tuple[int, float]]]
