"""The manifest of a run: its source, versions, requested settings, results, and which result is current."""

import json
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import platform, python_version
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, Field, JsonValue, ValidationError, model_validator

from spice.errors import UserError, field_of
from spice.files import write_text
from spice.runs.records import RESULTS
from spice.version import __version__

FORMAT = 2
MANIFEST = "manifest.json"
# A folder's name, never a path: a manifest from a stranger cannot point outside its run folder.
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_NAMED_VERSIONS = ("torch", "numpy", "pillow", "onnxruntime", "scikit-learn")


def _known_step(name: str) -> str:
    if name not in RESULTS:
        raise ValueError(f"there is no step {name!r}")
    return name


Step = Annotated[str, AfterValidator(_known_step)]


class ResultEntry(BaseModel, frozen=True):
    """One complete result of a run. A run can have several: other numbers of clusters, refined or not."""

    requested: dict[str, JsonValue]  # settings as the user asked for them
    settings: dict[str, JsonValue]  # the same, with everything that the program decided
    folders: dict[Step, Annotated[str, Field(pattern=rf"^(steps|results)/{NAME}$")]]  # relative to the run folder
    created: str
    versions: dict[str, str]


class Manifest(BaseModel, frozen=True):
    """What `manifest.json` holds."""

    format: int = FORMAT
    spice: str = __version__
    created: str
    # The images: an absolute path or an address; None for images in memory.
    source: str | None
    # Hash over the content of all images; None until they have been scanned.
    input: str | None = None
    # Settings of the last command until it is finished: `spice resume` continues with them.
    pending: dict[str, JsonValue] | None = None
    results: dict[Annotated[str, Field(pattern=f"^{NAME}$")], ResultEntry] = {}
    current: str | None = None

    @property
    def title(self) -> str:
        """What the report and the explorer call the images."""
        return Path(self.source).name if self.source else "images in memory"

    @property
    def requested(self) -> dict[str, JsonValue] | None:
        """The settings of the current result, as the user asked for them."""
        return None if self.current is None else self.results[self.current].requested

    @model_validator(mode="after")
    def _current_is_a_result(self) -> Self:
        if self.current is not None and self.current not in self.results:
            raise ValueError(f"the current result {self.current!r} is not among the results")
        return self


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the run in `folder`."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if not folder.exists():
            raise UserError(f"there is no folder {folder}") from None
        raise UserError(f"{folder} is not a run folder (it has no {MANIFEST}); start one with: spice cluster") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{path} is damaged; start a new run with: spice cluster --out OTHER") from None
    _check_format(folder, content.get("format") if isinstance(content, dict) else None)
    try:
        return Manifest.model_validate(content)
    except ValidationError as error:
        where = field_of(error)
        raise UserError(f"{path} is damaged at {where!r}; start a new run with: spice cluster --out OTHER") from None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step."""
    write_text(folder / MANIFEST, manifest.model_dump_json(indent=2) + "\n")


def versions() -> dict[str, str]:
    """The versions that a result may depend on."""
    found = {"spice": __version__, "python": python_version(), "platform": platform()}
    for name in _NAMED_VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def now() -> str:
    """The time, in UTC, as ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _check_format(folder: Path, found: object) -> None:
    if found == FORMAT:
        return
    if isinstance(found, int) and found > FORMAT:
        raise UserError(
            f"{folder} was made by a newer spice (run folder format {found}; spice {__version__} reads format "
            f"{FORMAT}); update spice to read it"
        )
    raise UserError(
        f"{folder} was made by an older spice (run folder format {found}; this version reads format {FORMAT}). Its "
        "labels.csv and model/ can still be used; to cluster again, start a new run with: spice cluster --out OTHER"
    )
