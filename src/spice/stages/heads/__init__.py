"""Stage 2: clustering heads by prototype pseudo-labeling (paper III-B)."""
