"""Usual names of columns that hold paths or vectors, the most likely first."""

from collections.abc import Iterable

PATH_COLUMNS = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "img")
VECTOR_COLUMNS = ("embedding", "embeddings", "features", "feature", "vector", "vectors")


def find_column(names: Iterable[str], wanted: Iterable[str]) -> str | None:
    """The first of the `wanted` names that exists, in any case; None if none does."""
    by_lower = {name.strip().lower(): name for name in reversed(list(names))}
    return next((by_lower[name] for name in wanted if name in by_lower), None)
