"""Sorts images into groups by what they show, without labels, and tells you how far to trust each group.

An implementation of SPICE (Niu, Shan, Wang: "Semantic Pseudo-Labeling for Image Clustering"). Importing this
package is instant: torch is loaded by the first thing that needs it.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

from spice.version import __version__

# ONNX Runtime reports its use to Microsoft, and leaves a device number in the user's cache, unless told not to
# before it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from spice.estimator import SPICE, load
    from spice.pipeline import cluster

__all__ = ["SPICE", "__version__", "cluster", "load"]

_HOMES = {"SPICE": "spice.estimator", "load": "spice.estimator", "cluster": "spice.pipeline"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
