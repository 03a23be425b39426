"""What lies in a run folder: every file by name, with what it holds and the step that writes it.

Shapes: N images, n of them by which heads are compared, D feature width, K clusters, S neighbors, V views, H heads.
"""

from typing import NamedTuple


class Artifact(NamedTuple):
    """A file or folder of the run folder."""

    name: str
    step: str
    holds: str


MANIFEST = Artifact(
    "manifest.json", "all", "settings, seed, versions, hash of the input, what is done and how long it took"
)
IMAGES = Artifact("images.parquet", "scan", "one row per image: path, content hash, size, exact copy of which")
PROBLEMS = Artifact("problems.csv", "scan", "every file that could not be used, with the reason")
STORE = Artifact("store", "store", "the decoded images at the working size; may be deleted")
ENCODER = Artifact(
    "encoder.safetensors", "features", "the feature model trained on these images, with `--encoder scratch`"
)
FEATURES = Artifact("features.npy", "views", "(N, D) float32: the frozen encoder's features of the plain images")
VIEWS = Artifact("views", "views", "features of V weak and V strong views of every image; may be deleted when done")
NEIGHBORS = Artifact("neighbors.npy", "neighbors", "(N, S) int64: the nearest images of every image, nearest first")
SIMILARITIES = Artifact("similarities.npy", "neighbors", "(N, S) float32: their cosine similarities")
KMEANS = Artifact("kmeans.npy", "kmeans", "(N,) int32: k-means on the same features, to compare with")
HEADS = Artifact("heads.json", "heads", "loss of every head after every epoch, and which one was selected")
HEAD = Artifact("head.safetensors", "heads", "weights of the selected clustering head")
HEAD_LABELS = Artifact(
    "head_labels.npz",
    "heads",
    "`labels` (looks, H, n): the clusters that every head gave to an even share of the images after every epoch "
    "looked at; `rows` (n,): which images",
)
REFINED = Artifact("refined", "joint", "with `--refine`: the network trained jointly, its features, and how it went")
PROBABILITIES = Artifact("probabilities.npy", "labels", "(N, K) float32: the selected head's probabilities")
LABELS = Artifact("labels.parquet", "labels", "the answer: one row per image, see below")
LABELS_CSV = Artifact("labels.csv", "labels", "the same table as text")
MODEL = Artifact("model", "model", "what `spice predict` and `spice.load` need: safetensors + json, no pickle")
MAP = Artifact(
    "map.npy", "pictures", "(N, 2) float32: every image as a point on a plane, near where features are alike"
)
PICTURES = Artifact(
    "pictures", "pictures", "thumbnails and attention overlays, for the report; may be deleted when done"
)
REPORT = Artifact("report.html", "report", "the page to look at: one file, opens anywhere, offline")
SCORES = Artifact(
    "scores.json",
    "evaluate",
    "scores against true labels and the curves behind the figures; only `spice evaluate` writes it",
)

ARTIFACTS: tuple[Artifact, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Artifact))
