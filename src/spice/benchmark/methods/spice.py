"""SPICE-s (the result of stage 2), SPICE (the result of stage 3), and the variants of Tables VII and VIII.

Shapes: A images to score, K clusters.
"""

import copy

from spice.benchmark.deep.objective import Pictures
from spice.benchmark.methods.joint_heads import train_joint_heads
from spice.benchmark.rivals.classic import Labels
from spice.benchmark.workbench import Workbench
from spice.data.images import InColor
from spice.errors import UserError
from spice.settings import HeadSettings
from spice.stages.encode import encode_plain, probabilities
from spice.stages.joint.train import ClusteringNetwork, Learner

# The temperatures in the paper (IV-F).
TEMPERATURES = (0.01, 0.05, 0.07, 0.1, 0.2, 0.5, 0.8, 2.0)
# Tables VII and VIII: the settings that differ from SPICE-s.
VARIANTS: dict[str, dict[str, object]] = {
    "Non-overlap": {"overlap": False},
    "Entropy": {"entropy": 1.0},
    "Without entropy": {"entropy": 0.0},
    "CE": {"loss": "cross_entropy"},
    "TCE": {"loss": "temperature"},
    **{f"TCE {value:g}": {"loss": "temperature", "temperature": value} for value in TEMPERATURES},
    "Weak / Weak": {"label_view": "weak", "train_view": "weak"},
    "Strong / Weak": {"label_view": "strong", "train_view": "weak"},
    "Strong / Strong": {"label_view": "strong", "train_view": "strong"},
    "Weak / Strong": {"label_view": "weak", "train_view": "strong"},
}


def stage_2(bench: Workbench) -> Labels:
    """SPICE-s: labels (A,) by the best head."""
    return _labels(bench, bench.choice.heads)


def ablated(bench: Workbench, variant: str | None = None) -> Labels:
    """Labels (A,) by the paper's heads, or a variant of them."""
    changes = VARIANTS[variant] if variant else {}
    return _labels(bench, HeadSettings.model_validate(bench.choice.paper_heads.model_dump() | changes))


def stage_3(bench: Workbench, *, all_labels: bool = False) -> Labels:
    """SPICE: labels (A,) after joint training on the reliable labels, or on all labels."""
    refined = bench.refined(all_labels=all_labels)
    if refined is None:
        return stage_2(bench)
    labels: Labels = probabilities(refined.head, encode_plain(refined.encoder, bench.scored)).argmax(dim=1).numpy()
    return labels


def joint_heads(bench: Workbench, heads: int) -> Labels:
    """Joint-SH (one head) and Joint-MH (several): stage 2 in which the feature model is trained too."""
    encoder, chosen = bench.encoder, bench.choice.joint_heads
    if encoder.module is None:
        raise UserError(f"{encoder.name} cannot be trained together with heads; use another encoder")
    # Without principal components, which would not follow the network as it changes.
    changes = {"heads": heads, "epochs": chosen.epochs, "least_steps": 1, "components": None}
    settings = bench.choice.paper_heads.model_copy(update=changes)
    network = copy.deepcopy(encoder.module).requires_grad_()
    learner = Learner.on_images(
        network, bench.clusters, bench.choice.views.augment, size=encoder.size, normalization=encoder.normalization
    )
    run = bench.place(f"joint-heads-{heads}", settings.model_dump_json(), chosen.network_rate)
    trained = train_joint_heads(learner, bench.learn, bench.features, settings, run, network_rate=chosen.network_rate)
    augment, images = bench.choice.views.augment, InColor(bench.scored, encoder.channels)
    scored = Pictures(images, augment, encoder.size, encoder.normalization)
    return scored.labels(ClusteringNetwork(trained.network, trained.head).eval(), bench.run.device)


def _labels(bench: Workbench, settings: HeadSettings) -> Labels:
    labels: Labels = probabilities(bench.head(settings), bench.scored_features).argmax(dim=1).numpy()
    return labels
