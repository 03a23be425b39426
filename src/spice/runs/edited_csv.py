"""Rewrites `labels.csv` after an edit, and its checksum in the record, so that the file does not count as damaged."""

import shutil
from pathlib import Path

from spice.runs.artifacts import LABELS_CSV
from spice.runs.checks import Checks
from spice.runs.labels import MOST_IN_CSV, write_labels_csv
from spice.runs.records import read_record, stamp_files, write_record
from spice.runs.result import Result, open_result


def update_csv(run: Path) -> None:
    """Write `labels.csv` of the current result with all edits; the same edits give the same bytes.

    A large collection has no such file.
    """
    result = open_result(run)
    if len(result.labels.path) > MOST_IN_CSV:
        return
    path, linked = result / LABELS_CSV, run / LABELS_CSV.name
    # If the file system has no links, the file at the top of the run folder is a copy.
    copied = linked.is_file() and not linked.is_symlink() and path.is_file()
    copied = copied and linked.read_bytes() == path.read_bytes()
    write_edited_csv(path, result)
    record = read_record(result.folder, "labels")
    if record is not None and record.files:
        stamps = record.files | stamp_files(result.folder, [LABELS_CSV.name])
        if stamps != record.files:
            write_record(result.folder, record.model_copy(update={"files": stamps}))
    if copied:
        shutil.copy2(path, linked)


def write_edited_csv(path: Path, result: Result) -> None:
    """The labels of a result, with all edits, as text."""
    shown = result.labels._replace(chance=Checks(result).chances)
    write_labels_csv(path, shown, result.groups.columns())
