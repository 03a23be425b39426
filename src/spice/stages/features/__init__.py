"""Stage 1: a feature model by contrastive learning (paper III-A)."""
