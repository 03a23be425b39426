"""Stage 3: train encoder and head jointly on reliable labels (paper III-C).

One training loop (`train`), and one file per semi-supervised algorithm; see `algorithms` for how to add one.
"""

from spice.stages.joint import fixmatch, freematch

__all__ = ["fixmatch", "freematch"]  # imported here, so that their names are registered
