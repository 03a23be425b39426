"""The stages in order; skips what is done."""
