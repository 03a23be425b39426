"""What joint training does to the features: the scores of Table VI.

Shapes: N images to learn from, A asked for, D feature width.
"""

from spice.benchmark.collected import Collected
from spice.benchmark.methods import METHODS
from spice.benchmark.workbench import Workbench
from spice.evaluate import accuracy
from spice.evaluate.probe import Labeled, linear_accuracy
from spice.stages.encode import encode_plain


def quality(bench: Workbench, images: Collected, *, after: bool) -> dict[str, float]:
    """Accuracy of a linear probe (supervised) and of the clusters; before joint training, of reliable labels too."""
    if after:
        found = bench.refined()
        encoder = bench.encoder if found is None else found.encoder
        learned, asked = encode_plain(encoder, bench.learn), encode_plain(encoder, bench.scored)
        clusters = METHODS["SPICE"].fit(bench)
    else:
        learned, asked = bench.features, bench.scored_features
        clusters = METHODS["SPICE-s"].fit(bench)
    known, truth = images.known(), images.truth()
    probe = linear_accuracy(Labeled(learned.numpy(), known), Labeled(asked.numpy(), truth))
    scores = {"supervised": probe, "unsupervised": accuracy(clusters, truth)}
    if not after:
        trusted = bench.reliable()
        right = accuracy(trusted.cluster.numpy(), known[trusted.image.numpy()])
        scores |= {"reliable labels": right, "share reliable": len(trusted.image) / len(known)}
    return scores
