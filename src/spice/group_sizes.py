"""Known group sizes, from `--sizes 0.5,0.3,0.2`, a file, or `SPICE(sizes=[500, 300, 200])`."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

from spice.errors import UserError
from spice.presets import Clusters
from spice.settings import RunSettings

# Expected images of the smallest group in a batch, at least. Fewer give a poor prototype.
FEWEST_OF_SMALLEST = 10
EXAMPLE = "such as 0.5,0.3,0.2 or 500,300,200"


def read_sizes(given: str) -> tuple[float, ...]:
    """Shares in descending order, from comma-separated numbers or a file of numbers."""
    # Path.is_file raises an error if the numbers are too long for a file name.
    file = Path(given) if os.path.isfile(given) else None  # noqa: PTH113
    try:
        text = given if file is None else file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read the sizes in {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read the sizes in {file}: not a text file") from None
    numbers = []
    for word in text.replace(",", " ").split():
        try:
            numbers.append(float(word))
        except ValueError:
            where = "--sizes" if file is None else file
            raise UserError(
                f"{where} contains {word!r}, which is not a number; give the size of every group, {EXAMPLE}, or a file "
                "of them"
            ) from None
    return as_shares(numbers)


def as_shares(sizes: Sequence[float]) -> tuple[float, ...]:
    """Shares in descending order that sum to 1. Whole numbers are counts and are divided by their sum."""
    numbers, total = [float(size) for size in sizes], math.fsum(sizes)
    if len(numbers) < 2:
        raise UserError(f"need the sizes of at least 2 groups, got {len(numbers)}; give shares or counts, {EXAMPLE}")
    for number in numbers:
        if not (math.isfinite(number) and number > 0):
            raise UserError(f"the size of a group must be a number above 0, got {number:g}")
    counts = all(number.is_integer() for number in numbers)
    if not counts and abs(total - 1) > 0.005:  # thirds may be written as 0.333
        raise UserError(f"shares must sum to 1, got {total:g}; give shares or counts, {EXAMPLE}")
    return tuple(sorted((number / total for number in numbers), reverse=True))


def clusters_from(shares: Sequence[float], clusters: Clusters) -> int:
    """The number of groups. Must equal `clusters`, if that is given too."""
    if clusters not in (None, len(shares)):
        asked = ":".join(map(str, clusters)) if isinstance(clusters, tuple) else clusters
        raise UserError(f"got {len(shares)} sizes for {asked} groups; leave out the number of groups")
    return len(shares)


def with_sizes(settings: RunSettings, shares: tuple[float, ...]) -> RunSettings:
    """Settings, for this number of clusters, with these shares."""
    batch = settings.heads.batch
    if batch is not None and settings.heads.similarity == "graph":  # not the paper's presets
        batch = max(batch, math.ceil(FEWEST_OF_SMALLEST / min(shares)))
    heads = settings.heads.model_copy(update={"sizes": shares, "batch": batch})
    return settings.model_copy(update={"heads": heads})
