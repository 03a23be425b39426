"""The images of a finished run, as the page and contact sheets show them."""

from typing import cast

from spice.data import Collection, ImageStore
from spice.data.images import Images, Pictured, Tiles
from spice.models.precomputed import NoEncoder
from spice.pipeline.steps.scan import SHOWN_SIZE, STORED_PICTURES
from spice.runs import Result
from spice.runs.artifacts import IMAGES
from spice.runs.folder import STORE


def shown_images(result: Result) -> Images:
    """The decoded images, by row; numbered tiles for images that were not kept."""
    collection = Collection.load((result / IMAGES).parent)
    if result.views.encoder == NoEncoder.name:
        folder = result.run / STORE / STORED_PICTURES
        if not (folder / IMAGES.name).exists():
            return Tiles(len(collection))
        found = Collection.load(folder)
        return Pictured(ImageStore(folder, found, SHOWN_SIZE), found.numbers, len(collection))
    size = cast(int, result.entry.settings["size"])
    folder = result.run / STORE / str(size)
    if not folder.exists() or bool((collection.rows < 0).any()):  # moved, or beyond the store's limit
        return Tiles(len(collection))
    return ImageStore(folder, collection, size)
