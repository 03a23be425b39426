"""The section of the page on outliers and near-duplicates."""

from typing import NamedTuple

from spice.runs import Result
from spice.runs.alike import duplicates_of, outliers_of
from spice.runs.artifacts import PAIRS, SIMILARITIES

MOST_SHOWN = 48  # outliers, and sets of duplicates
MOST_COPIES = 5  # of one image


class AlikeSection(NamedTuple):
    """Rows of the images that are shown, and how many there are in total."""

    outliers: list[int]
    outlier_count: int
    sets: list[list[int]]  # an image, then its copies
    set_count: int
    copy_count: int


def alike_section(result: Result) -> AlikeSection:
    """The farthest outliers, and the images with the most copies; empty for a run of an older version."""
    outliers = outliers_of(result).farthest().tolist() if (result / SIMILARITIES).exists() else []
    sets = duplicates_of(result) if (result / PAIRS).exists() else []
    return AlikeSection(
        outliers=outliers[:MOST_SHOWN],
        outlier_count=len(outliers),
        sets=[[found.row, *found.copies[:MOST_COPIES]] for found in sets[:MOST_SHOWN]],
        set_count=len(sets),
        copy_count=sum(len(found.copies) for found in sets),
    )
