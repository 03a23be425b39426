"""A run folder in use: opened or begun, its finished steps, and the place for unfinished work."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from spice.errors import UserError
from spice.runs.artifacts import MANIFEST, Artifact
from spice.runs.lock import LOCK_NAME
from spice.runs.manifest import Manifest, Step, now, read_manifest, write_manifest


class RunFolder:
    """The folder that a run leaves behind. Every change of its manifest is written at once, and atomically."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def open(cls, path: Path) -> Self:
        return cls(path, read_manifest(path))

    @classmethod
    def begin(cls, path: Path, *, source: str | None, settings: dict[str, JsonValue]) -> Self:
        """Make `path` a run folder; a folder that holds anything else is refused."""
        refuse_foreign(path)
        run = cls(path, Manifest.begin(source, settings))
        write_manifest(path, run.manifest)
        return run

    @classmethod
    def begin_or_go_on(cls, path: Path, *, source: str | None, settings: dict[str, JsonValue], redo: bool) -> Self:
        """The run in `path`, begun if there is none; one of other settings is refused, or taken over with `redo`."""
        if not is_run(path):
            return cls.begin(path, source=source, settings=settings)
        run = cls.open(path)
        changes = differences(run.manifest.settings, settings)
        if changes and run.has_results and not redo:
            raise UserError(
                f"{path} holds a run with other settings ({', '.join(changes)}); give another folder with --out, "
                "or add --redo to replace it (steps that the change does not touch are kept)"
            )
        if changes or run.manifest.source != source:
            run.update(settings=settings, source=source)
        return run

    @property
    def has_results(self) -> bool:
        """Whether there is work to lose: a finished step besides looking at the images, or an unfinished one."""
        return bool(set(self.manifest.steps) - {"scan"}) or (self.path / "work").exists()

    def __truediv__(self, artifact: Artifact) -> Path:
        return self.path / artifact.name

    def update(self, **changes: JsonValue) -> None:
        """Change fields of the manifest."""
        self.manifest = Manifest.model_validate({**self.manifest.model_dump(), **changes})
        write_manifest(self.path, self.manifest)

    def is_done(self, step: str, key: str, makes: Iterable[Artifact]) -> bool:
        """Whether `step` was finished with exactly these settings, and all it made is still there."""
        finished = self.manifest.steps.get(step)
        return finished is not None and finished.key == key and all((self / made).exists() for made in makes)

    def finish(self, step: str, key: str, seconds: float, figures: Mapping[str, JsonValue]) -> None:
        """Write down that `step` is done; its unfinished work is no longer needed."""
        done = Step(key=key, seconds=round(seconds, 3), finished=now(), figures=dict(figures))
        self.manifest = self.manifest.with_step(step, done)
        write_manifest(self.path, self.manifest)
        self.clear_work(step)

    def clear_work(self, step: str) -> None:
        """Remove what a finished step does not need any more, or what a kill has left of it."""
        shutil.rmtree(self.path / "work" / step, ignore_errors=True)
        with suppress(OSError):  # not there, or other steps have work in it
            (self.path / "work").rmdir()

    def forget(self, step: str, artifacts: Iterable[Artifact]) -> None:
        """Remove a finished step and its artifacts."""
        for artifact in artifacts:
            path = self / artifact
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        # The manifest last: a kill before this line leaves a step whose artifacts are missing, which is not done.
        self.manifest = self.manifest.without_step(step)
        write_manifest(self.path, self.manifest)

    def has_work(self, step: str) -> bool:
        """Whether a step was begun and not finished."""
        return any((self.path / "work" / step).glob("*/*"))

    def work(self, step: str, key: str) -> Path:
        """A folder for the unfinished work of `step`: what was left by other settings is removed, not picked up."""
        folder = self.path / "work" / step
        mine = folder / key
        for other in folder.glob("*"):
            if other != mine:
                shutil.rmtree(other, ignore_errors=True)
        mine.mkdir(parents=True, exist_ok=True)
        return mine


def needed(folder: Path, artifact: Artifact) -> Path:
    """The path of an artifact that must be there."""
    path = folder / artifact.name
    if not path.exists():
        raise UserError(f"{path} is missing; make it again with: spice resume {folder}")
    return path


def key_of(*parts: JsonValue) -> str:
    """A short hash of settings, the same in every process."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def differences(before: JsonValue, after: JsonValue, name: str = "") -> list[str]:
    """What changed from one settings tree to the other, in words: `heads.clusters was 10, is 12`."""
    if isinstance(before, dict) and isinstance(after, dict):
        prefix = f"{name}." if name else ""
        found = []
        for key in sorted({*before, *after}):
            found += differences(before.get(key), after.get(key), f"{prefix}{key}")
        return found
    return [] if before == after else [f"{name} was {json.dumps(before)}, is {json.dumps(after)}"]


def is_run(path: Path) -> bool:
    """Whether `path` holds a run, readable or not."""
    return (path / MANIFEST.name).exists()


def refuse_foreign(path: Path) -> None:
    """Refuse a file, and a folder that holds something other than a run: nothing of the user's is ever overwritten."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file; a run needs a folder of its own: give another name with --out")
    if path.is_dir() and not is_run(path) and any(not _ours(entry) for entry in path.iterdir()):
        raise UserError(f"{path} is not empty and not a run folder; give another name with --out")


def make(path: Path) -> None:
    """The folder itself, if it is not there yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {path}: {error.strerror}; give another one with --out") from error


def sweep(path: Path) -> None:
    """Remove what a kill left half-written. Only for the process that holds the lock."""
    for partial in path.glob(".*.partial"):
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink(missing_ok=True)


def _ours(entry: Path) -> bool:
    """Whether a kill in a run's first moment can have left this."""
    return entry.name == LOCK_NAME or (entry.name.startswith(".") and entry.suffix == ".partial")
