"""Stage 2: clustering heads trained by prototype pseudo-labeling (paper III-B)."""
