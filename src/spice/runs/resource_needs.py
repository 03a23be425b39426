"""Memory and disk space that a run of N images needs; the bound on memory is tested.

Shapes: N images, D feature width, K clusters, V views of an image, S pixels on a side.
"""

from typing import NamedTuple

# Measured by benchmarks/memory.py and rounded up: the program with its libraries and a few batches of images; copies of
# the features held at once; and the rows of tables, neighbors and names per image.
BASE_BYTES = 1.2e9
COPIES_OF_FEATURES = 4
BYTES_PER_IMAGE = 4000
MOST_PIXEL_BYTES = float(32 << 30)  # beyond this, images are decoded when they are needed (`data.ingest`)
NEIGHBORS = 150  # at most, each with its index and similarity


class Needs(NamedTuple):
    """Bytes."""

    memory: float  # the most that any command needs, without mapped files
    pixels: float  # on the disk: decoded images
    views: float  # on the disk: features of views; may be deleted when the run is finished
    results: float  # on the disk: features, neighbors, tables


def needs(
    images: int, *, clusters: int = 10, width: int = 1280, size: int = 224, views: int = 3, sample: int | None = None
) -> Needs:
    """For images of `size` pixels and features of `width` numbers; a sample of the images has `views` views each."""
    row = 4 * width
    return Needs(
        memory=BASE_BYTES + images * (COPIES_OF_FEATURES * row + 16 * clusters + BYTES_PER_IMAGE),
        pixels=min(3.0 * size * size * images, MOST_PIXEL_BYTES),
        views=float(min(images, sample or images) * views * row),
        results=images * (row + 12 * NEIGHBORS + 8 * clusters + 500),
    )
