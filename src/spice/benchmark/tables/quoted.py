"""What the paper says: every number of its Tables II to VIII, read off its text. Quoted, not run."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

SOURCE = "Niu, Shan, Wang: SPICE: Semantic Pseudo-labeling for Image Clustering (IEEE TIP 2022)"


class Quote(NamedTuple):
    """One number of the paper."""

    table: str  # "II"
    method: str
    here: str  # what the method is called in our tables; empty if we do not run it
    data: str
    score: str
    mean: float
    std: float | None


@cache
def quotes(table: str) -> tuple[Quote, ...]:
    """All numbers of one of the paper's tables, in its order."""
    text = files(__package__).joinpath("quoted.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(text.splitlines()))[1:]  # in the order of a quote's fields
    return tuple(
        Quote(number, method, here, data, score, float(mean), float(std) if std else None)
        for number, method, here, data, score, mean, std in rows
        if number == table
    )
