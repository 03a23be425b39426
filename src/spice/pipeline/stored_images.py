"""The decoded images of a finished run."""

from typing import cast

from spice.data import Collection, ImageStore
from spice.data.images import Images, Tiles, VectorPictures
from spice.models.precomputed import NoEncoder
from spice.pipeline.steps.scan import PICTURE_SIZE, PICTURES
from spice.runs import Result
from spice.runs.artifacts import IMAGES
from spice.runs.folder import STORE


def collection_of(result: Result) -> Collection:
    """The table of the images that a run is made of."""
    return Collection.load((result / IMAGES).parent)


def stored_images(result: Result) -> Images:
    """The images by row; numbered tiles for images that were not stored."""
    collection = collection_of(result)
    if result.views.encoder == NoEncoder.name:
        folder = result.run / STORE / PICTURES
        if not (folder / IMAGES.name).exists():
            return Tiles(len(collection))
        found = Collection.load(folder)
        return VectorPictures(ImageStore(folder, found, PICTURE_SIZE), found.numbers, len(collection))
    size = cast(int, result.entry.settings["size"])
    folder = result.run / STORE / str(size)
    if not folder.exists() or bool((collection.rows < 0).any()):  # moved, or beyond the store's limit
        return Tiles(len(collection))
    return ImageStore(folder, collection, size)
