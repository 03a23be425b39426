"""Wording for users: names of steps, numbers in sentences, and paths in commands."""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

# The steps of a run as users read them; a step that is not listed keeps its name.
STEPS = {
    "scan": "reading images",
    "features": "training the encoder",
    "encode": "encoding",
    "views": "random views",
    "howmany": "number of groups",
    "tree": "tree of groups",
    "heads": "training heads",
    "kmeans": "k-means",
    "joint": "joint training",
    "labels": "labels and chances",
    "map": "map of images",
    "words": "suggested names",
}


def step_in_words(step: str) -> str:
    """`howmany` -> `number of groups`; `report` stays."""
    return STEPS.get(step, step)


def counted(count: int, noun: str) -> str:
    """`1 image`, `1,204 images`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(items: Sequence[int | str], most: int = 4) -> str:
    """`1 and 3`, `1, 3 and 5`, `1, 3, 5 and 7 more`."""
    words = [str(item) for item in items]
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def percent(part: float, whole: float = 1.0) -> str:
    """`17%`; `0%` of nothing."""
    return f"{part / whole:.0%}" if whole else "0%"


def gigabytes(size: float) -> str:
    """`1.2 GB`, `34 MB`, `5.6 MB`, `78 kB`."""
    if size < 1e5:
        return f"{size / 1e3:.0f} kB"
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.{0 if size >= 1e7 else 1}f} MB"


def quoted(argument: str | Path, *, windows: bool = os.name == "nt") -> str:
    """Quote an argument of a command that users copy. On Windows, only PowerShell knows single quotes."""
    text = str(argument)
    if not windows:
        return shlex.quote(text)
    return text if re.fullmatch(r"[\w.:\\/+=-]+", text) else f'"{text}"'
