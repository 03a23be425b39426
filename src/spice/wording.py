"""What users read: names of steps, numbers in sentences, and paths in commands."""

import os
import re
import shlex
from collections.abc import Sequence

# What users read for the steps of a run; a step that is not listed has its own name.
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


def listed(numbers: Sequence[int], most: int = 4) -> str:
    """`1 and 3`, `1, 3 and 5`, `1, 3, 5 and 7 more`."""
    if len(numbers) > most:
        return f"{', '.join(map(str, numbers[: most - 1]))} and {len(numbers) - most + 1} more"
    return " and ".join(filter(None, [", ".join(map(str, numbers[:-1])), str(numbers[-1])]))


def percent(part: float, whole: float = 1.0) -> str:
    """`17%`; `0%` of nothing."""
    return f"{part / whole:.0%}" if whole else "0%"


def gigabytes(size: float) -> str:
    """`1.2 GB`, `34 MB`, `5.6 MB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.{0 if size >= 1e7 else 1}f} MB"


def quoted(argument: str, *, windows: bool = os.name == "nt") -> str:
    """One argument of a command that is shown to be copied; no shell of Windows but PowerShell knows single quotes."""
    if not windows:
        return shlex.quote(argument)
    return argument if re.fullmatch(r"[\w.:\\/+=-]+", argument) else f'"{argument}"'
