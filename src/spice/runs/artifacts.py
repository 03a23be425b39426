"""The files of a run folder, and which step writes each. `docs/run-folder.md` says what each holds.

Every step has its own folder, `steps/STEP-KEY`; the last steps (labels, model, pictures, report) share the folder of
the result that they belong to, `results/NAME`.

Shapes: N images, n in the sample on which heads are compared, D feature width, K clusters, S neighbors, C candidates,
H heads.
"""

from typing import NamedTuple


class Artifact(NamedTuple):
    """A file or folder that a step writes."""

    name: str
    step: str
    # Whether it may be deleted after the run. It is recreated when a step needs it.
    deletable: bool = False
    # Whether other commands rewrite it: `spice evaluate` and `spice report`.
    rewritten: bool = False


IMAGES = Artifact("images.parquet", "scan")
PROBLEMS = Artifact("problems.csv", "scan")
ENCODER = Artifact("encoder.safetensors", "features")
FEATURES = Artifact("features.npy", "encode")  # (N, D)
VIEWS = Artifact("views", "views", deletable=True)
WORDS = Artifact("words.npz", "words")
NEIGHBORS = Artifact("neighbors.npy", "neighbors")  # (N, S)
SIMILARITIES = Artifact("similarities.npy", "neighbors")  # (N, S)
CANDIDATES = Artifact("candidates.npy", "howmany")  # (C, N)
TREE = Artifact("tree.npz", "tree")
KMEANS = Artifact("kmeans.npy", "kmeans")  # (N,)
HEAD = Artifact("head.safetensors", "heads")
HEAD_LABELS = Artifact("head_labels.npz", "heads")  # (snapshots, H, n), and the n rows
REFINED_ENCODER = Artifact("encoder.safetensors", "joint")
REFINED_HEAD = Artifact("head.safetensors", "joint")
REFINED_FEATURES = Artifact("features.npy", "joint")  # (N, D)
REFINED_NEIGHBORS = Artifact("neighbors.npy", "joint")  # (N, S)
REFINED_SIMILARITIES = Artifact("similarities.npy", "joint")  # (N, S)
PAIRS = Artifact("pairs.npz", "labels")
PROBABILITIES = Artifact("probabilities.npy", "labels")  # (N, K)
LABELS = Artifact("labels.parquet", "labels")
LABELS_CSV = Artifact("labels.csv", "labels")
MODEL = Artifact("model", "model")
MAP = Artifact("map.npy", "map")  # (N, 2)
PICTURES = Artifact("pictures", "pictures", deletable=True)
REPORT = Artifact("report.html", "report", rewritten=True)
SCORES = Artifact("scores.json", "evaluate")
TRUTH = Artifact("truth.npy", "evaluate")  # (N,)

ARTIFACTS: tuple[Artifact, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Artifact))

# Files of the current result that are also linked at the top of the run folder.
LINKED = (LABELS_CSV, LABELS, REPORT, MODEL)
