"""A csv file of labels with columns `path` and `label`.

It has two readers: `stages.groups.given_labels`, for labels to learn from, and `evaluate`, for true labels, which
nothing may learn from.
"""

import csv
import os.path
from pathlib import Path

from spice.errors import UserError


def read_label_table(file: Path) -> dict[str, str]:
    """Labels by normalized path."""
    labels: dict[str, str] = {}
    try:
        with file.open(newline="", encoding="utf-8-sig") as opened:
            rows = csv.DictReader(opened)
            missing = {"path", "label"} - set(rows.fieldnames or ())
            if missing:
                found = ", ".join(rows.fieldnames or ()) or "an empty file"
                raise UserError(f"the first line of {file} must name the columns path and label; found {found}")
            for row in rows:
                place, path, label = f"{file}, line {rows.line_num}", plain_path(row["path"] or ""), row["label"]
                if not label or path == ".":
                    raise UserError(f"{place}: path {row['path']!r}, label {label!r}; both are required")
                if labels.setdefault(path, label) != label:
                    raise UserError(f"{place}: {path} is labeled {label} here and {labels[path]} above; keep only one")
    except OSError as error:
        raise UserError(f"cannot read labels from {file}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot read labels from {file}: not a CSV file in UTF-8 ({error})") from error
    return labels


def plain_path(path: str) -> str:
    """One spelling for `./a//b.jpg`, `a\\b.jpg` and `a/b.jpg`."""
    return os.path.normpath(path.replace("\\", "/")).replace("\\", "/")
