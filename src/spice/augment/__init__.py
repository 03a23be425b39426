"""Random views of images: batched, on tensors, on any device."""

from spice.augment.base import Recipe
from spice.augment.contrastive import Contrastive
from spice.augment.recipes import Plain, Strong, Weak

__all__ = ["Contrastive", "Plain", "Recipe", "Strong", "Weak"]
