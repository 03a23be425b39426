"""The run folder. Does not import torch."""

from spice.runs.edited_csv import update_csv
from spice.runs.folder import RunFolder, key_of
from spice.runs.groups import Groups
from spice.runs.labels import Labels, read_labels, write_labels
from spice.runs.lock import locked
from spice.runs.manifest import ResultEntry, read_manifest
from spice.runs.result import Result, open_result, save_edited_groups
from spice.runs.summary import Cluster, RunSummary, summarize
from spice.runs.write_errors import explain_output_errors, explain_write_errors, writing

__all__ = [
    "Cluster",
    "Groups",
    "Labels",
    "Result",
    "ResultEntry",
    "RunFolder",
    "RunSummary",
    "explain_output_errors",
    "explain_write_errors",
    "key_of",
    "locked",
    "open_result",
    "read_labels",
    "read_manifest",
    "save_edited_groups",
    "summarize",
    "update_csv",
    "write_labels",
    "writing",
]
