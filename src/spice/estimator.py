"""`SPICE(n_clusters=10).fit(...)`: a thin face on the pipeline."""
