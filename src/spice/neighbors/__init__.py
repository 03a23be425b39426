"""The nearest images of every image, by cosine similarity."""
