"""The folder that a run leaves behind. Opens without torch."""

from spice.runs.account import Account, Cluster, account
from spice.runs.folder import RunFolder, key_of
from spice.runs.labels import Labels, read_labels, write_labels
from spice.runs.lock import locked
from spice.runs.manifest import Manifest, Step, read_manifest
from spice.runs.trouble import told_in_words

__all__ = [
    "Account",
    "Cluster",
    "Labels",
    "Manifest",
    "RunFolder",
    "Step",
    "account",
    "key_of",
    "locked",
    "read_labels",
    "read_manifest",
    "told_in_words",
    "write_labels",
]
