"""Groups in the formats of other programs. Original images are linked or copied, never moved or changed.

Shapes: n images.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree  # only written, never read
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import JsonValue

from spice.errors import UserError
from spice.files import (
    collision_key,
    folder_written_atomically,
    portable_name,
    printable,
    shortened,
    write_text,
    written_atomically,
)
from spice.runs.groups import NONE, Groups
from spice.runs.labels import Labels
from spice.runs.xmp import sidecar
from spice.tables import Column, write_table

_FOLDER_LENGTH = 60  # characters; at most four bytes each, and file systems allow 255

Shape = Literal["folders", "imagefolder", "csv", "parquet", "labelstudio", "fiftyone", "cvat", "xmp"]


class Images(NamedTuple):
    """What is exported: images, and the group of each. Empty groups keep their numbers."""

    labels: Labels
    originals: list[Path]  # (n,) the image files; empty if only a table is written
    group: NDArray[np.int32]  # (n,)
    by_person: NDArray[np.bool_]  # (n,)
    names: dict[int, str]  # of all groups by number, empty ones too; `group_03` for one without a name
    named: frozenset[int]  # the groups with a name

    def name(self, row: int) -> str:
        """What to call the group of an image."""
        return self.names[int(self.group[row])]

    def folders(self) -> list[str]:
        """(n,) the name of each image's group, as a folder name that every system accepts."""
        names = folder_names(self.names)
        return [names[group] for group in self.group.tolist()]

    def columns(self) -> dict[str, Column]:
        """The groups as columns of a table."""
        names = [self.names[group] if group in self.named else "" for group in self.group.tolist()]
        return {"group": self.group, "name": names, "by_person": self.by_person}


def images_of(labels: Labels, groups: Groups, rows: NDArray[np.int64], originals: list[Path]) -> Images:
    """The images in these rows, each of which must be in a group."""
    shown = groups.shown[rows]
    assert not (shown == NONE).any()
    names = {number: groups.names.get(number) or f"group_{number:02d}" for number in groups.active}
    return Images(labels.rows(rows), originals, shown, groups.by_person[rows], names, frozenset(groups.names))


def export(images: Images, destination: Path, *, shape: Shape, copy: bool = False) -> Path:
    """Write the images to `destination`, and return what was written.

    Args:
        copy: copy the images instead of linking to them.
    """
    if shape in ("csv", "parquet") and destination.suffix != f".{shape}":
        destination = destination.with_name(f"{destination.name}.{shape}")
    if os.path.lexists(destination) and not (destination.is_dir() and not any(destination.iterdir())):
        raise UserError(f"{destination} already exists; choose another name")
    destination.parent.mkdir(parents=True, exist_ok=True)
    if shape in ("csv", "parquet"):
        write_table(destination, images.labels._asdict() | images.columns())
        return destination
    _refuse_missing(images.originals)
    with folder_written_atomically(destination) as new:
        if shape in REFERRING:
            REFERRING[shape](images, new)
        else:
            HOLDING[shape](images, new, shutil.copy2 if copy else _link)
    return destination


def folder_names(names: dict[int, str]) -> dict[int, str]:
    """A folder name per group: letters that a file system refuses are replaced, and no two are the same."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for number, name in names.items():
        folder = portable_name(name.strip()[:_FOLDER_LENGTH]) or f"group_{number:02d}"
        while collision_key(folder) in taken:
            folder = f"{folder}_{number:02d}"
        taken.add(collision_key(folder))
        found[number] = folder
    return found


Put = Callable[[Path, Path], object]  # links or copies an image to a place


def _folders(images: Images, destination: Path, put: Put) -> None:
    """For people: one folder per group, sorted from the most typical image on, doubtful images apart."""
    labels, originals = images.labels, images.originals
    folders, digits = images.folders(), len(str(len(originals)))
    certain = labels.reliable | images.by_person  # (n,)

    def place(row: int) -> Path:
        part = "reliable" if certain[row] else "doubtful"
        name = f"{labels.prototype_rank[row]:0{digits}d}_{originals[row].name}"
        return destination / folders[row] / part / name

    _put_all(originals, place, put)


def _imagefolder(images: Images, destination: Path, put: Put) -> None:
    """For training: a folder per group, as torchvision's ImageFolder and Hugging Face's imagefolder expect.

    `metadata.csv` has the group's number, which stays the same when another group is empty; positions among the
    folders do not.
    """
    originals, folders = images.originals, images.folders()
    placed = _put_all(originals, lambda row: destination / folders[row] / originals[row].name, put)
    names = [printable(path.relative_to(destination).as_posix()) for path in placed]
    columns = images.columns() | {"label": [images.name(row) for row in range(len(originals))]}
    write_table(destination / "metadata.csv", {"file_name": names, **columns, "chance": images.labels.chance})


def _labelstudio(images: Images, destination: Path) -> None:
    """Label Studio tasks: the group is a prediction to confirm, and its score is the chance that it is right."""
    root = _root(images.originals)
    tasks = [_task(images, row, path.relative_to(root)) for row, path in enumerate(images.originals)]
    _write_json(destination / "tasks.json", tasks)
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in images.names.values())
    (destination / "config.xml").write_text(
        f'<View>\n  <Image name="image" value="$image"/>\n  <Choices name="cluster" toName="image">\n{choices}\n'
        "  </Choices>\n</View>\n",
        encoding="utf-8",
    )
    (destination / "README.txt").write_text(
        "Start Label Studio with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and\n"
        f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={root}\n"
        "Then create a project with config.xml as its labeling interface, and import tasks.json.\n",
        encoding="utf-8",
        errors="surrogateescape",
    )


def _task(images: Images, row: int, name: Path) -> dict[str, JsonValue]:
    labels = images.labels
    choice: dict[str, JsonValue] = {
        "from_name": "cluster",
        "to_name": "image",
        "type": "choices",
        "value": {"choices": [images.name(row)]},
    }
    return {
        "data": {
            "image": f"/data/local-files/?d={quote(os.fsencode(name.as_posix()))}",
            "reliable": bool(labels.reliable[row]),
        },
        "predictions": [{"model_version": "spice", "score": round(float(labels.chance[row]), 6), "result": [choice]}],
    }


def _fiftyone(images: Images, destination: Path, put: Put) -> None:
    """A FiftyOneImageClassificationDataset: images by number in data/, and labels.json by the same numbers."""
    labels, originals = images.labels, images.originals
    digits = len(str(len(originals)))
    # By number: FiftyOne ignores file extensions, and its database takes only names in UTF-8.
    keys = [f"{row:0{digits}d}" for row in range(len(originals))]
    _put_all(originals, lambda row: destination / "data" / f"{keys[row]}{originals[row].suffix.lower()}", put)
    entries: dict[str, JsonValue] = {
        key: {
            "label": images.name(row),
            "confidence": round(float(labels.chance[row]), 6),
            "attributes": {
                "path": printable(labels.path[row]),
                "group": int(images.group[row]),
                "by_person": bool(images.by_person[row]),
                "reliability": round(float(labels.reliability[row]), 6),
                "reliable": bool(labels.reliable[row]),
                "prototype_rank": int(labels.prototype_rank[row]),
            },
        }
        for row, key in enumerate(keys)
    }
    _write_json(destination / "labels.json", {"labels": entries})


def _cvat(images: Images, destination: Path) -> None:
    """ "CVAT for images 1.1": a tag per image. For a task made of the same images, under the names given here."""
    root = _root(images.originals)
    file = ElementTree.Element("annotations")
    ElementTree.SubElement(file, "version").text = "1.1"
    task = ElementTree.SubElement(ElementTree.SubElement(file, "meta"), "task")
    ElementTree.SubElement(task, "size").text = str(len(images.originals))
    known = ElementTree.SubElement(task, "labels")
    for name in images.names.values():
        ElementTree.SubElement(ElementTree.SubElement(known, "label"), "name").text = name
    for row, path in enumerate(images.originals):
        with Image.open(path) as opened:
            width, height = opened.size
        named = {"id": str(row), "name": path.relative_to(root).as_posix(), "width": str(width), "height": str(height)}
        entry = ElementTree.SubElement(file, "image", named)
        source = "manual" if images.by_person[row] else "auto"
        ElementTree.SubElement(entry, "tag", {"label": images.name(row), "source": source})
    _write_xml(destination / "annotations.xml", file)


def _xmp(images: Images, destination: Path) -> None:
    """A sidecar per image of a named group, IMAGE.jpg.xmp, with the name as keyword; folders as the originals have."""
    root = _root(images.originals)
    for row, path in enumerate(images.originals):
        if int(images.group[row]) in images.named:
            target = destination / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_xml(target.with_name(f"{target.name}.xmp"), sidecar(images.name(row)))


# Formats that hold the images, and formats that refer to the originals where they are.
HOLDING: dict[str, Callable[[Images, Path, Put], None]] = {
    "folders": _folders,
    "imagefolder": _imagefolder,
    "fiftyone": _fiftyone,
}
REFERRING: dict[str, Callable[[Images, Path], None]] = {"labelstudio": _labelstudio, "cvat": _cvat, "xmp": _xmp}


def _put_all(originals: list[Path], place: Callable[[int], Path], put: Put) -> list[Path]:
    """Put every image in its place, and return where it is."""
    placed: list[Path] = []
    taken: set[str] = set()
    for row, original in enumerate(originals):
        wanted = place(row)
        target = wanted.with_name(shortened(wanted.name))
        number = 1
        # Two folders may hold images of one name, or of `A.jpg` and `a.jpg`: `a.jpg`, then `a-2.jpg`, `a-3.jpg`, ...
        while collision_key(str(target)) in taken:
            number += 1
            target = wanted.with_name(shortened(wanted.name, f"-{number}"))
        taken.add(collision_key(str(target)))
        placed.append(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        put(original, target)
    return placed


def _link(original: Path, target: Path) -> None:
    try:
        target.symlink_to(original.absolute())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EROFS, errno.EACCES):
            raise
        # The file system of a USB stick, or Windows without the right to create links.
        raise UserError(f"cannot create links in {target.parent} ({error.strerror}): add --copy") from error


def _root(originals: list[Path]) -> Path:
    """The folder that holds all of them."""
    try:
        return Path(os.path.commonpath([path.parent for path in originals]))
    except ValueError as error:
        raise UserError("these images are on several drives; export the groups of each drive on its own") from error


def _write_xml(path: Path, root: ElementTree.Element) -> None:
    ElementTree.indent(root)
    with written_atomically(path) as temporary:
        ElementTree.ElementTree(root).write(temporary, encoding="utf-8", xml_declaration=True)


def _write_json(path: Path, content: object) -> None:
    write_text(path, json.dumps(content, indent=1))


def _refuse_missing(originals: list[Path]) -> None:
    missing = next((path for path in originals if not path.exists()), None)
    if missing is not None:
        raise UserError(f"{missing} no longer exists; only --as csv and --as parquet work without the images")
