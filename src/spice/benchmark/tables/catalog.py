"""Which tables there are (`catalog.toml`): methods, scores, and what of the paper is quoted. Opens without torch."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

SizeName = Literal["smoke", "cpu", "full"]


@dataclass(frozen=True)
class Table:
    """One table of the paper, or one of ours."""

    name: str
    title: str
    which: Literal["whole", "split"]
    methods: Sequence[str]
    paper: str = ""  # its number there, or "" for one of ours
    scores: Sequence[str] = ("ACC", "NMI", "ARI")
    best: bool = False  # whether the best run stands beside the mean, as the paper's Table III compares best results


_ENTRIES = tomllib.loads(files(__package__).joinpath("catalog.toml").read_text(encoding="utf-8"))
TABLES = {name: Table(name, **entry) for name, entry in _ENTRIES.items()}
