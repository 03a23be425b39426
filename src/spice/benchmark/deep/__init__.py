"""Rivals that train a network on images, each a loss for one common training loop (Tables II to IV)."""
