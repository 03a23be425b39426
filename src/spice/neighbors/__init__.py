"""The nearest images of every image, by cosine similarity (paper III-C: the N_s nearest samples)."""

from spice.neighbors.approximate import recall
from spice.neighbors.directions import BlankImagesWarning, warn_of_blank
from spice.neighbors.exact import Neighbors
from spice.neighbors.search import Method, nearest

__all__ = ["BlankImagesWarning", "Method", "Neighbors", "nearest", "recall", "warn_of_blank"]
