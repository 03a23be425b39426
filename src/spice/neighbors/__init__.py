"""The nearest images of every image, by cosine similarity (paper III-C: the N_s nearest samples)."""

from spice.neighbors.approximate import recall
from spice.neighbors.exact import Neighbors
from spice.neighbors.search import BlankImagesWarning, Method, nearest, nearest_with_recall, warn_of_blank
from spice.neighbors.units import unit_rows

__all__ = [
    "BlankImagesWarning",
    "Method",
    "Neighbors",
    "nearest",
    "nearest_with_recall",
    "recall",
    "unit_rows",
    "warn_of_blank",
]
