"""Settings filled in for a purpose: a quick look, the paper's data sets, the authors' code."""
