"""Known sizes of the groups: `--sizes 0.5,0.3,0.2`, a file, `SPICE(sizes=[500, 300, 200])`."""

import math
from collections.abc import Sequence
from pathlib import Path

from spice.errors import UserError
from spice.presets import Clusters
from spice.settings import RunSettings

# Images of the smallest group in a batch, at least: fewer give a poor prototype.
FEWEST_OF_SMALLEST = 10
EXAMPLE = "such as 0.5,0.3,0.2 or 500,300,200"


def read_sizes(given: str) -> tuple[float, ...]:
    """Shares, the largest first, from numbers with commas between, or from a file of numbers."""
    path = Path(given)
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else given
    except OSError as error:
        raise UserError(f"cannot read the sizes in {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read the sizes in {path}: not a text file") from None
    numbers = []
    for word in text.replace(",", " ").split():
        try:
            numbers.append(float(word))
        except ValueError:
            where = f"{path} holds" if path.is_file() else "--sizes has"
            raise UserError(
                f"{where} {word!r}, which is not a number; give the size of every group, {EXAMPLE}, or a file of them"
            ) from None
    return as_shares(numbers)


def as_shares(sizes: Sequence[float]) -> tuple[float, ...]:
    """Shares that sum to 1, the largest first; counts (whole numbers) are divided by their sum."""
    numbers, total = [float(size) for size in sizes], math.fsum(sizes)
    if len(numbers) < 2:
        raise UserError(f"need the sizes of at least 2 groups, got {len(numbers)}; give shares or counts, {EXAMPLE}")
    if not all(math.isfinite(number) and number > 0 for number in numbers):
        raise UserError(f"the size of a group must be above 0, got {min(numbers):g}")
    counts = all(number.is_integer() for number in numbers)
    if not counts and abs(total - 1) > 0.005:  # thirds may be written as 0.333
        raise UserError(f"shares must sum to 1, got {total:g}; give shares or counts, {EXAMPLE}")
    return tuple(sorted((number / total for number in numbers), reverse=True))


def clusters_from(shares: Sequence[float], clusters: Clusters) -> int:
    """The number of groups, which must be `clusters` if that is given too."""
    if clusters not in (None, len(shares)):
        asked = ":".join(map(str, clusters)) if isinstance(clusters, tuple) else clusters
        raise UserError(f"got {len(shares)} sizes for {asked} groups; leave out the number of groups")
    return len(shares)


def with_sizes(settings: RunSettings, shares: tuple[float, ...]) -> RunSettings:
    """The settings for as many clusters, with the sizes of the groups given."""
    batch = settings.heads.batch
    if batch is not None and settings.heads.similarity == "graph":  # the paper's batch stays the paper's
        batch = max(batch, math.ceil(FEWEST_OF_SMALLEST / min(shares)))
    heads = settings.heads.model_copy(update={"sizes": shares, "batch": batch})
    return settings.model_copy(update={"heads": heads})
