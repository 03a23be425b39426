"""The run's own record: effective settings, seed, versions, a hash of the input, and what is done."""

import json
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import platform, python_version

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from spice.errors import UserError
from spice.files import written_atomically
from spice.runs.artifacts import MANIFEST
from spice.version import __version__

FORMAT = 1
_NAMED_VERSIONS = ("torch", "numpy", "pillow", "onnxruntime", "scikit-learn")


class Step(BaseModel):
    """One finished step. `key` is a hash of all that its result depends on."""

    model_config = ConfigDict(frozen=True)

    key: str
    seconds: float
    finished: str
    figures: dict[str, JsonValue] = {}


class Manifest(BaseModel):
    """What `manifest.json` holds."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    spice: str = __version__
    created: str
    # What was given to be clustered, as an absolute path where it is one; None for arrays held in memory.
    source: str | None
    settings: dict[str, JsonValue]
    versions: dict[str, str]
    # Hash over the content of all images; None until they have been scanned.
    input: str | None = None
    steps: dict[str, Step] = {}

    @classmethod
    def begin(cls, source: str | None, settings: dict[str, JsonValue]) -> "Manifest":
        return cls(created=now(), source=source, settings=settings, versions=versions())

    def with_step(self, name: str, step: Step) -> "Manifest":
        return self.model_copy(update={"steps": {**self.steps, name: step}})

    def without_step(self, name: str) -> "Manifest":
        return self.model_copy(update={"steps": {key: step for key, step in self.steps.items() if key != name}})


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the run in `folder`; one that this version cannot read is refused in words."""
    path = folder / MANIFEST.name
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{folder} is not a run folder (it has no {MANIFEST.name}); begin one with: spice cluster"
        ) from None
    except ValueError:
        raise UserError(f"{path} is damaged; begin a new run with: spice cluster --out OTHER") from None
    _refuse_other_formats(folder, content.get("format") if isinstance(content, dict) else None)
    try:
        return Manifest.model_validate(content)
    except ValidationError as error:
        what = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UserError(f"{path} is damaged at {what!r}; begin a new run with: spice cluster --out OTHER") from None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step."""
    with written_atomically(folder / MANIFEST.name) as temporary:
        temporary.write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")


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


def _refuse_other_formats(folder: Path, found: object) -> None:
    if found == FORMAT:
        return
    if isinstance(found, int) and found > FORMAT:
        raise UserError(
            f"{folder} was made by a newer spice (run folder format {found}, this is spice {__version__} with format "
            f"{FORMAT}); update with: pip install -U spice-cluster"
        )
    raise UserError(
        f"{folder} was made by an older spice (run folder format {found}, this one reads {FORMAT}); its labels.csv can "
        "still be opened by anything, but to go on, begin a new run with: spice cluster --out OTHER"
    )
