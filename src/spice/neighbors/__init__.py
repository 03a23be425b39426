"""The nearest images of every image, by cosine similarity (paper III-C: the N_s nearest samples)."""

from spice.neighbors.approximate import measured_recall, recall
from spice.neighbors.exact import Neighbors
from spice.neighbors.search import APPROXIMATE_FROM, Method, nearest

__all__ = ["APPROXIMATE_FROM", "Method", "Neighbors", "measured_recall", "nearest", "recall"]
