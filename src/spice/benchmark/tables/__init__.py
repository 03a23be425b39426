"""The paper's tables, one command each: their catalog, running them, estimating their time, and rendering them."""
