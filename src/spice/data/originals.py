"""The image files behind a run: where they are, or, for those inside an archive or an array, taken out of it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from spice.data.problems import printable
from spice.data.recognize import open_source
from spice.data.scan import listing
from spice.data.sources import Entry, Files, Folder, Source
from spice.errors import UserError


def originals(source: str | None, names: Sequence[str], *, run: Path, taken_out: Path) -> list[Path]:
    """A file for each of the `names` of a run's images; those that are not files are written to `taken_out`."""
    if source is None:
        raise UserError(f"the images of {run} were given in memory: only csv and parquet can be exported without them")
    opened = open_source(source, leave_out=[run])
    listed, _ = listing(opened)
    entries = {printable(entry.name): entry for entry in listed}
    missing = next((name for name in names if name not in entries), None)
    if missing is not None:
        raise UserError(f"{missing} is no longer in {source}: only csv and parquet can be exported without the images")
    if isinstance(opened, Folder):
        return [opened.root.absolute() / entries[name].name for name in names]
    if isinstance(opened, Files):
        return [Path(opened.base, entries[name].name).absolute() for name in names]
    return _take_out(opened, [entries[name] for name in names], taken_out)


def _take_out(source: Source, entries: list[Entry], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    # Numbered: an archive may hold one name in many folders, and an array's images have no ending.
    paths = {entry.number: folder / _file_name(entry) for entry in entries}
    for entry, read in source.contents(sorted(entries, key=lambda entry: entry.number)):
        content = read()
        if isinstance(content, bytes):
            paths[entry.number].write_bytes(content)
            continue
        if isinstance(content, np.ndarray):  # of one channel, Pillow takes it without its last axis
            content = Image.fromarray(content[..., 0] if content.shape[2:] == (1,) else content)
        content.save(paths[entry.number])
    return [paths[entry.number] for entry in entries]


def _file_name(entry: Entry) -> str:
    name = Path(entry.name).name
    return f"{entry.number:07d}_{name}" if Path(name).suffix else f"{entry.number:07d}.png"
