"""Groups images by meaning, without labels, and says which of its answers can be trusted.

An implementation of SPICE (Niu, Shan, Wang: "Semantic Pseudo-Labeling for Image Clustering"). Importing this
package is instant: torch is loaded by the first thing that needs it.
"""

from typing import TYPE_CHECKING

from spice.version import __version__

if TYPE_CHECKING:
    from spice.estimator import SPICE, load

__all__ = ["SPICE", "__version__", "load"]


def __getattr__(name: str) -> object:
    if name in ("SPICE", "load"):
        from spice import estimator

        return getattr(estimator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
