"""Clusters in the formats of other programs. Original images are linked or copied, never moved or changed."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote

from pydantic import JsonValue

from spice.errors import UserError
from spice.files import folder_written_atomically, shortened, written_atomically
from spice.runs.labels import Labels
from spice.runs.table import write_table

Shape = Literal["folders", "imagefolder", "csv", "parquet", "labelstudio", "fiftyone"]
Place = Literal["link", "copy"]


class Export(NamedTuple):
    """What was written."""

    destination: Path
    images: int


def export(labels: Labels, originals: list[Path], destination: Path, *, shape: Shape, place: Place = "link") -> Export:
    """Write `labels` to `destination`; `originals` are the image files, one per row."""
    if shape in ("csv", "parquet") and destination.suffix != f".{shape}":
        destination = destination.with_name(f"{destination.name}.{shape}")
    if os.path.lexists(destination) and not (destination.is_dir() and not any(destination.iterdir())):
        raise UserError(f"{destination} exists already and is not overwritten; give a new name")
    destination.parent.mkdir(parents=True, exist_ok=True)
    if shape in ("csv", "parquet"):
        write_table(destination, labels._asdict())
        return Export(destination, len(labels.path))
    _refuse_missing(originals)
    with folder_written_atomically(destination) as new:
        _WRITERS[shape](labels, originals, new, _link if place == "link" else _copy)
    return Export(destination, len(labels.path))


Put = Callable[[Path, Path], None]


def _folders(labels: Labels, originals: list[Path], destination: Path, put: Put) -> None:
    """For people: one folder per cluster, sorted from the most typical image on, doubtful images apart."""
    digits = len(str(len(originals)))

    def place(row: int) -> Path:
        part = "reliable" if labels.reliable[row] else "doubtful"
        name = f"{labels.prototype_rank[row]:0{digits}d}_{originals[row].name}"
        return destination / _cluster_name(labels, row) / part / name

    _put_all(originals, place, put)


def _imagefolder(labels: Labels, originals: list[Path], destination: Path, put: Put) -> None:
    """For training: one folder per cluster, as torchvision's ImageFolder and Hugging Face's imagefolder expect."""
    _put_all(originals, lambda row: destination / _cluster_name(labels, row) / originals[row].name, put)


def _labelstudio(labels: Labels, originals: list[Path], destination: Path, put: Put) -> None:
    """Label Studio tasks: the cluster is a prediction to confirm, and its score is the chance that it is right."""
    del put  # Label Studio serves the originals from where they are.
    root = Path(os.path.commonpath([path.parent for path in originals]))
    names = sorted({_cluster_name(labels, row) for row in range(len(originals))})
    tasks = [_task(labels, row, path.relative_to(root)) for row, path in enumerate(originals)]
    _write_json(destination / "tasks.json", tasks)
    choices = "\n".join(f'    <Choice value="{name}"/>' for name in names)
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


def _task(labels: Labels, row: int, name: Path) -> dict[str, JsonValue]:
    choice: dict[str, JsonValue] = {
        "from_name": "cluster",
        "to_name": "image",
        "type": "choices",
        "value": {"choices": [_cluster_name(labels, row)]},
    }
    return {
        "data": {
            "image": f"/data/local-files/?d={quote(os.fsencode(name.as_posix()))}",
            "reliable": bool(labels.reliable[row]),
        },
        "predictions": [{"model_version": "spice", "score": round(float(labels.chance[row]), 6), "result": [choice]}],
    }


def _fiftyone(labels: Labels, originals: list[Path], destination: Path, put: Put) -> None:
    """A FiftyOneImageClassificationDataset whose data.json points at the originals."""
    del put
    entries: dict[str, JsonValue] = {
        str(row): {
            "label": _cluster_name(labels, row),
            "confidence": round(float(labels.chance[row]), 6),
            "attributes": {
                "reliability": round(float(labels.reliability[row]), 6),
                "reliable": bool(labels.reliable[row]),
                "prototype_rank": int(labels.prototype_rank[row]),
            },
        }
        for row in range(len(originals))
    }
    _write_json(destination / "data.json", {str(row): str(path) for row, path in enumerate(originals)})
    _write_json(destination / "labels.json", {"labels": entries})


_WRITERS: dict[str, Callable[[Labels, list[Path], Path, Put], None]] = {
    "folders": _folders,
    "imagefolder": _imagefolder,
    "labelstudio": _labelstudio,
    "fiftyone": _fiftyone,
}


def _put_all(originals: list[Path], place: Callable[[int], Path], put: Put) -> None:
    taken: set[Path] = set()
    for row, original in enumerate(originals):
        wanted = place(row)
        target = wanted.with_name(shortened(wanted.name))
        number = 1
        while target in taken:  # two folders may hold images of one name: `a.jpg`, then `a-2.jpg`, `a-3.jpg`, ...
            number += 1
            target = wanted.with_name(shortened(wanted.name, f"-{number}"))
        taken.add(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        put(original, target)


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


def _cluster_name(labels: Labels, row: int) -> str:
    return f"cluster_{labels.cluster[row]:02d}"


def _write_json(path: Path, content: object) -> None:
    with written_atomically(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _refuse_missing(originals: list[Path]) -> None:
    missing = next((path for path in originals if not path.exists()), None)
    if missing is not None:
        raise UserError(f"{missing} no longer exists; only --as csv and --as parquet work without the images")
