"""Groups in the formats of other programs. Original images are linked or copied, never moved or changed."""

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

from PIL import Image
from pydantic import JsonValue

from spice.errors import UserError
from spice.files import folder_written_atomically, printable, shortened, write_text, written_atomically
from spice.runs.classes import Classes
from spice.runs.labels import Labels
from spice.runs.xmp import sidecar
from spice.tables import write_table

Shape = Literal["folders", "imagefolder", "csv", "parquet", "labelstudio", "fiftyone", "cvat", "xmp"]


def export(
    labels: Labels,
    originals: list[Path],
    destination: Path,
    *,
    shape: Shape,
    classes: Classes,
    copy: bool = False,
) -> Path:
    """Write `labels` to `destination`, and return what was written; `originals` are the image files, one per row.

    Args:
        classes: the groups as people edited them.
        copy: copy the images instead of linking to them.
    """
    if shape in ("csv", "parquet") and destination.suffix != f".{shape}":
        destination = destination.with_name(f"{destination.name}.{shape}")
    if os.path.lexists(destination) and not (destination.is_dir() and not any(destination.iterdir())):
        raise UserError(f"{destination} already exists; choose another name")
    destination.parent.mkdir(parents=True, exist_ok=True)
    if shape in ("csv", "parquet"):
        write_table(destination, labels._asdict() | classes.columns())
        return destination
    _refuse_missing(originals)
    with folder_written_atomically(destination) as new:
        _WRITERS[shape](Images(labels, classes, originals), new, _copy if copy else _link)
    return destination


Put = Callable[[Path, Path], None]


class Images(NamedTuple):
    """What is exported."""

    labels: Labels
    classes: Classes
    originals: list[Path]


def _folders(images: Images, destination: Path, put: Put) -> None:
    """For people: one folder per group, sorted from the most typical image on, doubtful images apart."""
    labels, originals, classes = images.labels, images.originals, images.classes
    folders, digits = classes.folders(), len(str(len(originals)))
    certain = labels.reliable | classes.by_person  # (n,) nobody doubts where a person put an image

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
    classes, labels, originals = images.classes, images.labels, images.originals
    folders = classes.folders()
    placed = _put_all(originals, lambda row: destination / folders[row] / originals[row].name, put)
    names = [printable(path.relative_to(destination).as_posix()) for path in placed]
    columns = classes.columns() | {"label": [classes.label(row) for row in range(len(originals))]}
    write_table(destination / "metadata.csv", {"file_name": names, **columns, "chance": labels.chance})


def _labelstudio(images: Images, destination: Path, put: Put) -> None:
    """Label Studio tasks: the group is a prediction to confirm, and its score is the chance that it is right."""
    del put  # Label Studio serves the originals from where they are.
    root = _root(images.originals)
    tasks = [_task(images, row, path.relative_to(root)) for row, path in enumerate(images.originals)]
    _write_json(destination / "tasks.json", tasks)
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in images.classes.labels.values())
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
        "value": {"choices": [images.classes.label(row)]},
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
    labels, classes, originals = images
    digits = len(str(len(originals)))
    # By number: FiftyOne tells images apart without their endings, and its database takes no names but UTF-8.
    keys = [f"{row:0{digits}d}" for row in range(len(originals))]
    _put_all(originals, lambda row: destination / "data" / f"{keys[row]}{originals[row].suffix.lower()}", put)
    entries: dict[str, JsonValue] = {
        key: {
            "label": classes.label(row),
            "confidence": round(float(labels.chance[row]), 6),
            "attributes": {
                "path": printable(labels.path[row]),
                "group": int(classes.group[row]),
                "by_person": bool(classes.by_person[row]),
                "reliability": round(float(labels.reliability[row]), 6),
                "reliable": bool(labels.reliable[row]),
                "prototype_rank": int(labels.prototype_rank[row]),
            },
        }
        for row, key in enumerate(keys)
    }
    _write_json(destination / "labels.json", {"labels": entries})


def _cvat(images: Images, destination: Path, put: Put) -> None:
    """ "CVAT for images 1.1": a tag per image. For a task made of the same images, under the names given here."""
    del put  # CVAT has the images already
    root = _root(images.originals)
    file = ElementTree.Element("annotations")
    ElementTree.SubElement(file, "version").text = "1.1"
    task = ElementTree.SubElement(ElementTree.SubElement(file, "meta"), "task")
    ElementTree.SubElement(task, "size").text = str(len(images.originals))
    known = ElementTree.SubElement(task, "labels")
    for name in images.classes.labels.values():
        ElementTree.SubElement(ElementTree.SubElement(known, "label"), "name").text = name
    for row, path in enumerate(images.originals):
        with Image.open(path) as opened:
            width, height = opened.size
        named = {"id": str(row), "name": path.relative_to(root).as_posix(), "width": str(width), "height": str(height)}
        entry = ElementTree.SubElement(file, "image", named)
        source = "manual" if images.classes.by_person[row] else "auto"
        ElementTree.SubElement(entry, "tag", {"label": images.classes.label(row), "source": source})
    _write_xml(destination / "annotations.xml", file)


def _xmp(images: Images, destination: Path, put: Put) -> None:
    """A sidecar per image of a named group, IMAGE.jpg.xmp, with the name as keyword; folders as the originals have."""
    del put
    root, classes = _root(images.originals), images.classes
    for row, path in enumerate(images.originals):
        if int(classes.group[row]) in classes.named:
            target = destination / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_xml(target.with_name(f"{target.name}.xmp"), sidecar(classes.label(row)))


_WRITERS: dict[str, Callable[[Images, Path, Put], None]] = {
    "folders": _folders,
    "imagefolder": _imagefolder,
    "labelstudio": _labelstudio,
    "fiftyone": _fiftyone,
    "cvat": _cvat,
    "xmp": _xmp,
}


def _put_all(originals: list[Path], place: Callable[[int], Path], put: Put) -> list[Path]:
    """Put every image in its place, and return where it is."""
    taken: dict[Path, None] = {}
    for row, original in enumerate(originals):
        wanted = place(row)
        target = wanted.with_name(shortened(wanted.name))
        number = 1
        while target in taken:  # two folders may hold images of one name: `a.jpg`, then `a-2.jpg`, `a-3.jpg`, ...
            number += 1
            target = wanted.with_name(shortened(wanted.name, f"-{number}"))
        taken[target] = None
        target.parent.mkdir(parents=True, exist_ok=True)
        put(original, target)
    return list(taken)


def _link(original: Path, target: Path) -> None:
    try:
        target.symlink_to(original.absolute())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EROFS, errno.EACCES):
            raise
        # The file system of a USB stick, or Windows without the right to create links.
        raise UserError(f"cannot create links in {target.parent} ({error.strerror}): add --copy") from error


def _copy(original: Path, target: Path) -> None:
    shutil.copy2(original, target)


def _root(originals: list[Path]) -> Path:
    """The folder that holds all of them."""
    return Path(os.path.commonpath([path.parent for path in originals]))


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
