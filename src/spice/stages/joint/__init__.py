"""Stage 3: encoder and head trained together on reliable labels (paper III-C)."""
