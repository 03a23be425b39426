"""A run folder that is being written: steps are added, and nothing finished is ever replaced.

A complete result becomes the current one in a single step: the manifest names it, and the link `current` points to it.
So the labels, the model and the report at the top of the folder always belong together.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from spice.errors import UserError
from spice.files import remove, replace
from spice.runs.artifacts import LINKED, PROBLEMS
from spice.runs.lock import HOLDER, LOCK
from spice.runs.manifest import MANIFEST, Manifest, ResultEntry, now, read_manifest, write_manifest

STEPS, RESULTS, CURRENT = "steps", "results", "current"
LINKS = os.name == "posix"  # Windows lets few users make links, and nothing can replace a link to a folder
STORE = "store"  # decoded images, in a folder named after their size
# In a step's folder: checkpoints, which are deleted when the step is finished.
UNFINISHED = "unfinished"


class RunFolder:
    """A run folder. Every change to its manifest is written at once, and atomically."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest

    @classmethod
    def open(cls, path: Path) -> Self:
        return cls(path, read_manifest(path))

    @classmethod
    def open_or_create(cls, path: Path, *, source: str | None, pending: dict[str, JsonValue] | None = None) -> Self:
        """The run in `path`; if there is none, a new one, to be resumed with the settings `pending`."""
        if is_run(path):
            return cls.open(path)
        refuse_foreign(path)
        (path / PROBLEMS.name).unlink(missing_ok=True)  # left by a run that found no image
        run = cls(path, Manifest(created=now(), source=source, pending=pending))
        write_manifest(path, run.manifest)
        return run

    def update(self, **changes: object) -> None:
        """Change fields of the manifest."""
        self.manifest = self.manifest.model_copy(update=changes)
        write_manifest(self.path, self.manifest)

    @property
    def has_results(self) -> bool:
        """Whether there is work that could be lost: a finished result, or a step other than the scan."""
        steps = (folder.name for folder in (self.path / STEPS).glob("*"))
        return bool(self.manifest.results) or any(not name.startswith("scan-") for name in steps)

    def publish(self, name: str, entry: ResultEntry, *, use: bool = True) -> None:
        """Add the complete result `name`, and with `use` (or if there is no other) make it the current one."""
        current = name if use or self.manifest.current is None else self.manifest.current
        if self.manifest.current != current or self.manifest.results.get(name) != entry:
            self.update(results={**self.manifest.results, name: entry}, current=current)
        if current == name:
            self.link()

    def use(self, name: str) -> None:
        """Make another of the results the current one."""
        if name not in self.manifest.results:
            known = ", ".join(self.manifest.results) or "none"
            raise UserError(f"{self.path} has no result {name!r}; its results are: {known}")
        self.update(current=name)
        self.link()

    def remove(self, name: str) -> None:
        """Delete a result that is not the current one, and the steps that only it used."""
        if name == self.manifest.current or name not in self.manifest.results:
            state = "is the current result" if name == self.manifest.current else "is not a result"
            raise UserError(f"{name} {state} of {self.path}, so it cannot be removed")
        left = {other: entry for other, entry in self.manifest.results.items() if other != name}
        used = {folder for entry in left.values() for folder in entry.folders.values()}
        unused = set(self.manifest.results[name].folders.values()) - used
        # The manifest first: if the process is killed in between, only unused folders are left.
        self.update(results=left)
        for folder in unused:
            shutil.rmtree(self.path / folder, ignore_errors=True)

    def link(self) -> None:
        """Point the names at the top of the folder to the current result: links, or copies if links are impossible."""
        if self.manifest.current is None:
            return
        target = Path(RESULTS) / self.manifest.current
        for artifact in LINKED:
            self._keep_changed(artifact.name)
        if not self._linked(target):
            self._place(lambda name, new: _copy(self.path / target / name, new))

    def _linked(self, target: Path) -> bool:
        """Make the links; False if links are impossible here."""
        try:
            if LINKS:
                _swap(self.path / CURRENT, lambda new: new.symlink_to(target))
                self._place(lambda name, new: new.symlink_to(Path(CURRENT) / name))
        except (OSError, NotImplementedError):  # such as on a memory stick
            return False
        return LINKS

    def _place(self, make: Callable[[str, Path], None]) -> None:
        """Put what `make(name, path)` creates at the top of the folder, for each of `LINKED` that the result has."""
        for artifact in LINKED:
            if (self.path / RESULTS / str(self.manifest.current) / artifact.name).exists():
                _swap(self.path / artifact.name, partial(make, artifact.name))
            else:
                remove(self.path / artifact.name)

    def _keep_changed(self, name: str) -> None:
        """Keep a file that replaced our link, under another name, unless it is a copy of ours."""
        path = self.path / name
        if path.is_symlink() or not path.is_file():
            return
        content = path.read_bytes()
        if all(content != ours.read_bytes() for ours in self.path.glob(f"{RESULTS}/*/{name}")):
            path.rename(path.with_name(f"{path.stem}-kept-{now().replace(':', '')}{path.suffix}"))


def key_of(*parts: JsonValue) -> str:
    """A short hash of settings, the same in every process."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def is_run(path: Path) -> bool:
    """Whether `path` holds a run, readable or not."""
    return (path / MANIFEST).exists()


def refuse_foreign(path: Path) -> None:
    """Refuse a file, and a folder that holds something other than a run: nothing of the user's is ever overwritten."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file, not a folder; choose another name with --out")
    if path.is_dir() and not is_run(path) and any(not _ours(entry) for entry in path.iterdir()):
        raise UserError(f"{path} is not a run folder and not empty; choose another name with --out")


def refuse_links_outside(path: Path) -> None:
    """Refuse a run folder in which writing a file could change one elsewhere: call this before anything is written.

    The links that spice makes at its top are replaced and never followed, so it does not matter where they lead.
    """
    home = os.path.realpath(path)
    replaced = {CURRENT, *(artifact.name for artifact in LINKED)}
    for folder, folders, files in os.walk(home):
        for name in (*folders, *files):
            entry = Path(folder, name)
            if entry.is_symlink() and not (folder == home and name in replaced):
                target = os.path.realpath(entry)
                if not Path(target).is_relative_to(home):
                    raise UserError(f"{entry} is a link to {target}, outside the run folder; remove the link")


def create(path: Path) -> None:
    """Create the folder, if it does not exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the folder {path}: {error.strerror}; choose another one with --out") from error


def clear_failed_start(path: Path) -> Path | None:
    """Remove a run folder without a single image, except for the list of unusable files, if there is one."""
    lists = [found.read_bytes() for found in path.glob(f"{STORE}/*/{PROBLEMS.name}")]
    shutil.rmtree(path)
    content = next((text for text in lists if text.count(b"\n") > 1), None)  # more than a header
    if content is None:
        return None
    path.mkdir()
    (path / PROBLEMS.name).write_bytes(content)
    return path / PROBLEMS.name


def remove_partial_files(path: Path) -> None:
    """Remove half-written files of a killed process. Only the process that holds the lock may call this."""
    for folder, pattern in ((path, ".*.partial"), (path / STEPS, "**/.*.partial"), (path / RESULTS, "**/.*.partial")):
        for leftover in list(folder.glob(pattern)):
            remove(leftover)


def _swap(path: Path, make: Callable[[Path], None]) -> None:
    """Replace `path` with what `make` creates; atomically, unless `path` is a real folder."""
    new, old = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.old.partial")
    remove(new)
    make(new)
    if path.is_symlink() and new.is_symlink() and path.readlink() == new.readlink():
        new.unlink()
        return
    if path.is_dir() and not path.is_symlink():  # the run folder was copied by a program that follows links
        path.rename(old)
    replace(new, path)
    remove(old)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)


def _ours(entry: Path) -> bool:
    """Whether a run that was killed at once, or that found no image, may have left this behind."""
    return entry.name in (LOCK, HOLDER, PROBLEMS.name) or (entry.name.startswith(".") and entry.suffix == ".partial")
