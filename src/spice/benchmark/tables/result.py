"""The numbers of a table: cells, each saved when it is measured, and the table of all cells."""

import hashlib
import json
import os
import platform
import re
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import torch
from pydantic import BaseModel, ValidationError

from spice.benchmark.choice import Choice, WhichImages
from spice.benchmark.datasets import card_of
from spice.benchmark.methods import uses
from spice.benchmark.tables.catalog import TABLES, SizeName, Table
from spice.errors import UserError
from spice.files import write_text
from spice.models.encoders import SCRATCH
from spice.settings import Settings
from spice.version import __version__
from spice.wording import counted

# The fields of `Choice` that every method depends on.
OF_IMAGES = ("dataset", "clusters", "pixels", "train", "test")


class Cell(Settings):
    """One measurement."""

    data: str
    method: str
    seed: int
    scores: dict[str, float]
    learned: int  # images learned from
    scored: int  # images scored
    seconds: float  # processor seconds of the method, without the steps that all methods share (features, views)
    notes: list[str]
    key: str  # hash of the settings
    at: str  # time of the end
    versions: dict[str, str]
    processor: str = ""  # empty in cells of older versions


class Cells:
    """A folder of cells. Cells with other settings are ignored, and so measured again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, which: WhichImages, choice: Choice, method: str, seed: int) -> Cell | None:
        """The cell, if it was measured with these settings."""
        try:
            cell = Cell.model_validate_json(self._path(which, choice, method, seed).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
        return cell if cell.key == settings_key(which, choice, method) else None

    def keep(self, which: WhichImages, choice: Choice, cell: Cell) -> None:
        """Write the cell atomically."""
        _write(self._path(which, choice, cell.method, cell.seed), cell)

    def _path(self, which: WhichImages, choice: Choice, method: str, seed: int) -> Path:
        data = f"{choice.dataset}-{choice.train}" if choice.train else choice.dataset
        return self.folder / which / data / f"{slug(method)}-{seed}.json"


def settings_key(which: WhichImages, choice: Choice, method: str) -> str:
    """A hash of everything that a cell depends on, except the seed and the version of the program."""
    # A pretrained encoder does not depend on the settings of stage 1.
    unused = {"features", "one_encoder"} if choice.encoder != SCRATCH else set()
    chosen = choice.model_dump(mode="json", include={*OF_IMAGES, *uses(method)} - unused)
    text = json.dumps([which, method, chosen], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def slug(name: str) -> str:
    """A name for a file: `SPICE-s of the paper` -> `spice-s-of-the-paper`; `SCAN*` -> `scan-star`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace("*", "-star").replace("+", "")).strip("-")


def versions() -> dict[str, str]:
    """The versions of the programs that computed a cell."""
    packages = {package: version(package) for package in ("torch", "numpy", "scikit-learn")}
    return {"spice": __version__, "python": platform.python_version()} | packages


def processor() -> str:
    """The type of processor and the instruction set that torch uses. Other types round differently."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        lines = []
    found = dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in lines if ":" in line)
    name = found.get("model name") or platform.processor() or platform.machine()
    number = "".join(
        f", {word} {found[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in found
    )
    return f"{name}{number}, {torch.backends.cpu.get_cpu_capability()}"


class Data(Settings):
    """One data set of the table."""

    name: str
    title: str
    about: str
    left_out: dict[str, str]  # methods that were not run, and why


class Result(Settings):
    """A table with its cells."""

    table: str
    size: SizeName
    command: str
    machine: str
    data: list[Data]
    cells: list[Cell]

    @property
    def processors(self) -> dict[str, int]:
        """The number of cells by type of processor; "" if it was not recorded."""
        return dict(Counter(cell.processor for cell in self.cells).most_common())

    @property
    def of(self) -> Table:
        """The entry of the catalog."""
        return TABLES[self.table]

    def save(self, path: Path) -> None:
        """Write the JSON file atomically."""
        _write(path, self)

    @classmethod
    def load(cls, path: Path) -> "Result":
        """Read what `save` wrote."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise UserError(f"{path} is not a table saved by `spice bench`: {str(error).splitlines()[0]}") from error

    def figure(self, data: str, method: str, score: str) -> "Figure | None":
        """Mean and standard deviation of a score over seeds; None if it was not measured."""
        values = [
            cell.scores[score]
            for cell in self.cells
            if (cell.data, cell.method) == (data, method) and score in cell.scores
        ]
        if not values:
            return None
        return Figure(fmean(values), stdev(values) if len(values) > 1 else None, len(values))

    def seconds(self, data: str, method: str) -> float | None:
        """Mean processor seconds of a run of the method."""
        values = [cell.seconds for cell in self.cells if (cell.data, cell.method) == (data, method)]
        return fmean(values) if values else None

    @property
    def seeds(self) -> list[int]:
        """The seeds of all cells."""
        return sorted({cell.seed for cell in self.cells})


class Figure(NamedTuple):
    """A score over seeds."""

    mean: float
    std: float | None  # sample standard deviation; None for a single seed
    seeds: int


def result(table: Table, size: SizeName, choices: Sequence[Choice], cells: Sequence[Cell], *, command: str) -> Result:
    """The table of these cells."""
    counts = {cell.data: (cell.learned, cell.scored) for cell in cells}
    data = [
        Data(
            name=choice.dataset,
            title=card_of(choice.dataset).title,
            about=about(choice, table, *counts[choice.dataset]),
            left_out={method: why for method, why in choice.left_out.items() if method in table.methods},
        )
        for choice in choices
        if choice.dataset in counts
    ]
    return Result(table=table.name, size=size, command=command, machine=machine(), data=data, cells=list(cells))


def about(choice: Choice, table: Table, learned: int, scored: int) -> str:
    """A description of a data set and its settings, for the caption."""
    card = card_of(choice.dataset)
    images = f"{learned:,} images" if table.which == "whole" else f"{learned:,} images to learn from, {scored:,} scored"
    few = learned < sum(card.counts) if table.which == "whole" else learned < card.counts.train
    parts = [f"{card.title}: {images}{' (a subset)' if few else ''}, {choice.pixels} px, K = {choice.clusters}"]
    features = choice.features
    if choice.encoder == SCRATCH:
        network = f"`{features.network}`" + (f" of width {features.width}" if features.width else "")
        shared = "for all seeds" if choice.one_encoder else "for each seed"
        method = {"moco": "MoCo", "simclr": "SimCLR", "byol": "BYOL"}[features.method]
        parts.append(f"one network {shared}, {network}, trained by {method} for {features.epochs} epochs")
    else:
        parts.append(f"features of `{choice.encoder}`, which was trained with ImageNet's labels")
    return "; ".join(parts)


def machine() -> str:
    """A description of the machine."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{os.cpu_count()} cores of {platform.machine()}, {device}, {counted(torch.get_num_threads(), 'thread')}"


def _write(path: Path, content: BaseModel) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, content.model_dump_json(indent=1) + "\n")
