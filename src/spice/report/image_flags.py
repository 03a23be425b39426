"""The section of the report on outliers and near-duplicates."""

from typing import NamedTuple

from spice.runs import Result
from spice.runs.artifacts import PAIRS, SIMILARITIES
from spice.runs.image_flags import duplicates_of, outliers_of

MOST_SHOWN = 48  # outliers, and sets of duplicates
MOST_COPIES = 5  # of one image


class ImageFlagsSection(NamedTuple):
    """Rows of the images that are shown, and the total numbers."""

    outliers: list[int]
    outlier_count: int
    sets: list[list[int]]  # an image, then its copies
    set_count: int
    copy_count: int


def image_flags_section(result: Result) -> ImageFlagsSection:
    """The farthest outliers, and the images with the most near-duplicates; empty for runs of older versions."""
    outliers = outliers_of(result).farthest().tolist() if (result / SIMILARITIES).exists() else []
    sets = duplicates_of(result) if (result / PAIRS).exists() else []
    return ImageFlagsSection(
        outliers=outliers[:MOST_SHOWN],
        outlier_count=len(outliers),
        sets=[[found.row, *found.copies[:MOST_COPIES]] for found in sets[:MOST_SHOWN]],
        set_count=len(sets),
        copy_count=sum(len(found.copies) for found in sets),
    )
