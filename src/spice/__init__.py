"""Groups images by meaning, without labels, and says which of its answers can be trusted.

An implementation of SPICE (Niu, Shan, Wang: "Semantic Pseudo-Labeling for Image Clustering"). Importing this
package is instant: torch is loaded by the first thing that needs it.
"""

__version__ = "0.1.0"
