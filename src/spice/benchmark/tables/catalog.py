"""The catalog of tables, `catalog.toml`: their methods and scores. Importing it does not import torch."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

SizeName = Literal["smoke", "cpu", "full"]


@dataclass(frozen=True)
class Table:
    """A table of the paper, or one of ours."""

    name: str
    title: str
    which: Literal["whole", "split"]
    methods: Sequence[str]
    paper: str = ""  # its number in the paper; "" for ours
    scores: Sequence[str] = ("ACC", "NMI", "ARI")
    best: bool = False  # show the best run, too, since the paper's Table III compares best results


_ENTRIES = tomllib.loads(files(__package__).joinpath("catalog.toml").read_text(encoding="utf-8"))
TABLES = {name: Table(name, **entry) for name, entry in _ENTRIES.items()}
