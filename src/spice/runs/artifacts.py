"""The files of a run folder: which step writes each, and what it holds.

Every step has a folder of its own, `steps/STEP-KEY`; the last steps (labels, model, pictures, report) share the folder
of the result that they belong to, `results/NAME`.

Shapes: N images, n of them by which heads are compared, D feature width, K clusters, S neighbors, V views, H heads.
"""

from typing import NamedTuple


class Artifact(NamedTuple):
    """A file or folder that a step leaves."""

    name: str
    step: str
    holds: str
    # Whether it may be deleted after the run. It is recreated when a step needs it.
    deletable: bool = False
    # Whether other commands write it again: `spice evaluate` and `spice report`.
    rewritten: bool = False


IMAGES = Artifact("images.parquet", "scan", "one row per image: path, content hash, size, exact copy of which")
PROBLEMS = Artifact("problems.csv", "scan", "every file that could not be used, with the reason")
ENCODER = Artifact("encoder.safetensors", "features", "the feature model trained on these images (`--encoder scratch`)")
FEATURES = Artifact("features.npy", "encode", "(N, D) float32: the frozen encoder's features of the plain images")
VIEWS = Artifact("views", "views", "features of V weak and V strong views of every image", deletable=True)
WORDS = Artifact(
    "words.npz",
    "words",
    "`best`, `share` (N, 8): the best classes of the built-in encoder's own classifier, for names",
)
NEIGHBORS = Artifact("neighbors.npy", "neighbors", "(N, S) int64: the nearest images of every image, nearest first")
SIMILARITIES = Artifact("similarities.npy", "neighbors", "(N, S) float32: their cosine similarities")
CANDIDATES = Artifact(
    "candidates.npy", "howmany", "(candidates, N) int32: a partition for each plausible number of groups"
)
TREE = Artifact(
    "tree.npz",
    "tree",
    "groups within groups: `leaf` (N,) of every image, `merges` (leaves - 1, 2), information `lost` by each merge",
)
KMEANS = Artifact("kmeans.npy", "kmeans", "(N,) int32: k-means on the same features, to compare with")
HEAD = Artifact("head.safetensors", "heads", "weights of the selected clustering head")
HEAD_LABELS = Artifact(
    "head_labels.npz",
    "heads",
    "`labels` (snapshots, H, n): the clusters that every head gave to an even share of the images whenever heads were "
    "scored; `rows` (n,): which images",
)
REFINED_ENCODER = Artifact("encoder.safetensors", "joint", "the encoder after joint training")
REFINED_HEAD = Artifact("head.safetensors", "joint", "the head after joint training")
REFINED_FEATURES = Artifact("features.npy", "joint", "(N, D) float32: features of the plain images by that encoder")
REFINED_NEIGHBORS = Artifact("neighbors.npy", "joint", "(N, S) int64: the nearest images by those features")
REFINED_SIMILARITIES = Artifact("similarities.npy", "joint", "(N, S) float32: their cosine similarities")
PAIRS = Artifact(
    "pairs.npz", "labels", "`first`, `second`, `likeness` (P,): similar images, and the correlation of their pixels"
)
PROBABILITIES = Artifact("probabilities.npy", "labels", "(N, K) float32: the head's probabilities")
LABELS = Artifact("labels.parquet", "labels", "the head's answer: one row per image, see below")
LABELS_CSV = Artifact("labels.csv", "labels", "the same table as text, with what people edited; every edit rewrites it")
MODEL = Artifact("model", "model", "what `spice predict` and `spice.load` need: safetensors + json, no pickle")
MAP = Artifact("map.npy", "map", "(N, 2) float32: every image as a point on a plane, similar images close by")
PICTURES = Artifact("pictures", "pictures", "thumbnails and attention overlays, for the report", deletable=True)
REPORT = Artifact("report.html", "report", "the page to look at: one file, opens anywhere, offline", rewritten=True)
SCORES = Artifact("scores.json", "evaluate", "scores against true labels; only `spice evaluate` writes it")
TRUTH = Artifact(
    "truth.npy", "evaluate", "(N,) int32: the true class of every image in `scores.json`, or -1; only for figures"
)

ARTIFACTS: tuple[Artifact, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Artifact))

# Files of the current result that are also linked at the top of the run folder.
LINKED = (LABELS_CSV, LABELS, REPORT, MODEL)
