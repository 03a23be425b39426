"""The cells of a table: a measurement of (data set, method, seed) each, saved as it ends: a kill loses one."""

import hashlib
import json
import platform
import re
from importlib.metadata import version
from pathlib import Path

from pydantic import AliasChoices, Field, ValidationError

from spice.benchmark.choice import Choice, WhichImages
from spice.benchmark.methods import uses
from spice.files import written_atomically
from spice.models.encoders import SCRATCH
from spice.settings import Settings
from spice.version import __version__

# The parts of a `Choice` that every method depends on.
OF_IMAGES = ("dataset", "clusters", "pixels", "train", "test")


class Cell(Settings):
    """One measurement."""

    data: str
    method: str
    seed: int
    scores: dict[str, float]
    learned: int  # images learned from
    scored: int = Field(validation_alias=AliasChoices("scored", "asked"))  # images; `asked` in earlier files
    seconds: float  # processor seconds of the method itself, without what all share (features, views)
    notes: list[str]
    key: str  # of the settings that it was measured with
    at: str  # when it ended
    versions: dict[str, str]


class Cells:
    """A folder of cells. Cells of other settings are as good as absent: they are measured anew."""

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
        """Write the cell, whole or not at all."""
        path = self._path(which, choice, cell.method, cell.seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_atomically(path) as temporary:
            temporary.write_text(cell.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def _path(self, which: WhichImages, choice: Choice, method: str, seed: int) -> Path:
        data = f"{choice.dataset}-{choice.train}" if choice.train else choice.dataset
        return self.folder / which / data / f"{slug(method)}-{seed}.json"


def settings_key(which: WhichImages, choice: Choice, method: str) -> str:
    """A hash of all that a cell depends on besides seed and program."""
    # An encoder that is given does not depend on how another one would be trained.
    unused = {"features", "one_encoder"} if choice.encoder != SCRATCH else set()
    chosen = choice.model_dump(mode="json", include={*OF_IMAGES, *uses(method)} - unused)
    text = json.dumps([which, method, chosen], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def slug(name: str) -> str:
    """A name for a file: `SPICE-s of the paper` -> `spice-s-of-the-paper`; `SCAN*` -> `scan-star`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace("*", "-star").replace("+", "")).strip("-")


def versions() -> dict[str, str]:
    """The programs that computed a cell."""
    packages = {package: version(package) for package in ("torch", "numpy", "scikit-learn")}
    return {"spice": __version__, "python": platform.python_version()} | packages
