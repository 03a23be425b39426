"""Random views of images: batched, on tensors, on any device."""

from spice.augment.recipes import Contrastive, Plain, Recipe, Strong, Weak

__all__ = ["Contrastive", "Plain", "Recipe", "Strong", "Weak"]
