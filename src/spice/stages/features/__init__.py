"""Stage 1: train a feature model by contrastive learning (paper III-A)."""
