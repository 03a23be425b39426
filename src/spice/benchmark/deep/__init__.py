"""Rivals that train a network on images, each a loss over one training loop (Tables II to IV)."""
