"""The image files of a run: their paths, or copies if they are inside an archive or an array."""

from collections.abc import Sequence
from glob import has_magic
from pathlib import Path

import numpy as np
from PIL import Image

from spice.data.decode import from_array
from spice.data.recognize import open_source
from spice.data.remote import is_remote
from spice.data.sources import Entry, Files, Folder, Source
from spice.errors import UserError
from spice.files import portable_name, printable, shortened
from spice.wording import quoted


def originals(source: str | None, names: Sequence[str], *, run: Path, extract_to: Path) -> list[Path]:
    """A file for each of the `names` of a run's images; images in an archive or array are extracted to `extract_to`."""
    if source is None:
        raise UserError(
            f"the images of {run} were passed from memory; only csv and parquet can be exported without image files"
        )
    refuse_moved(source, run)
    opened = open_source(source, leave_out=[run])
    entries = {printable(entry.name): entry for entry in opened.listing()[0]}
    missing = next((name for name in names if name not in entries), None)
    if missing is not None:
        raise UserError(f"{missing} is no longer in {source}; only csv and parquet can be exported without image files")
    if isinstance(opened, Folder | Files):
        return [Path(opened.base, entries[name].name).absolute() for name in names]
    return _extract(opened, [entries[name] for name in names], extract_to)


def refuse_moved(source: str, run: Path) -> None:
    """Refuse a run whose images were moved or deleted since, and say how to tell it where they are now."""
    if not is_remote(source) and not has_magic(source) and not Path(source).exists():
        raise UserError(
            f"the images of {run} are no longer at {source}; if you moved them, run: "
            f"spice cluster NEW_FOLDER --out {quoted(run)} (with the options used before, such as -k)"
        )


def _extract(source: Source, entries: list[Entry], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    # Numbered: an archive may hold one name in many folders, and an array's images have no ending.
    paths = {}
    for entry, read in source.contents(sorted(entries, key=lambda entry: entry.number)):
        content, name = read(), Path(entry.name)
        ending = f"_{portable_name(name.name)}" if name.suffix else ".png"
        path = paths[entry.number] = folder / shortened(f"{entry.number:07d}{ending}")
        if isinstance(content, bytes):
            path.write_bytes(content)
            continue
        if isinstance(content, np.ndarray):
            flat = content[..., 0] if content.shape[2:] == (1,) else content
            content = Image.fromarray(flat) if flat.ndim == 2 else from_array(flat)  # Pillow has no 16-bit color
        content.save(path)
    return [paths[entry.number] for entry in entries]
