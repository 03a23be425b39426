"""SPICE-s (the second stage's answer), SPICE (the third's), and the variants of the ablation (Tables II to VIII).

Shapes: A images asked for, K clusters.
"""

import copy

from spice.augment import Strong, Weak
from spice.benchmark.methods.codes import Labels
from spice.benchmark.methods.joint_heads import NetworkTraining, train_joint_heads
from spice.benchmark.semi.methods import answers
from spice.benchmark.workbench import Workbench
from spice.engine.run import Run
from spice.errors import UserError
from spice.models.backbone import Backbone
from spice.settings import HeadSettings
from spice.stages.joint.train import ClusteringNetwork
from spice.stages.model import encode_plain, probabilities

# Table VII, and VIII: what differs from SPICE-s.
VARIANTS: dict[str, dict[str, object]] = {
    "Non-overlap": {"overlap": False},
    "Entropy": {"entropy": 1.0},
    "CE": {"loss": "cross_entropy"},
    "TCE": {"loss": "temperature"},
    "Weak / Weak": {"label_view": "weak", "train_view": "weak"},
    "Strong / Weak": {"label_view": "strong", "train_view": "weak"},
    "Strong / Strong": {"label_view": "strong", "train_view": "strong"},
    "Weak / Strong": {"label_view": "weak", "train_view": "strong"},
}


def second_stage(bench: Workbench) -> Labels:
    """SPICE-s: labels (A,) by the selected head."""
    return _labels(bench, bench.choice.heads)


def ablated(bench: Workbench, variant: str | None = None) -> Labels:
    """The paper's heads with one thing changed, or none."""
    changes = VARIANTS[variant] if variant else {}
    return _labels(bench, HeadSettings.model_validate(bench.choice.paper_heads.model_dump() | changes))


def third_stage(bench: Workbench) -> Labels:
    """SPICE: labels (A,) by feature model and head after joint training."""
    found = bench.refined()
    if found is None:
        return second_stage(bench)
    labels: Labels = probabilities(found.head, encode_plain(found.encoder, bench.asked)).argmax(dim=1).numpy()
    return labels


def joint_heads(bench: Workbench, heads: int) -> Labels:
    """Joint-SH (one head) and Joint-MH (several): the second stage with a feature model that learns along."""
    encoder, chosen = bench.encoder, bench.choice.joint_heads
    if encoder.module is None:
        raise UserError(f"{encoder.name} cannot be trained along with heads")
    # Heads on all features and not on their components, which would not follow the network.
    changes = {"heads": heads, "epochs": chosen.epochs, "least_steps": 1, "components": None}
    settings = bench.choice.paper_heads.model_copy(update=changes)
    augment = bench.choice.views.augment
    place = bench.place(f"joint-heads-{heads}", settings.model_dump_json(), chosen.network_rate)
    trained = train_joint_heads(
        copy.deepcopy(encoder.module).requires_grad_(),
        bench.learn,
        bench.features,
        settings,
        Run(seed=bench.seed, folder=place, device=bench.device, progress=bench.progress),
        training=NetworkTraining(
            weak=Weak(augment, size=encoder.size, normalization=encoder.normalization),
            strong=Strong(augment, size=encoder.size, normalization=encoder.normalization),
            learning_rate=chosen.network_rate,
        ),
    )
    assert isinstance(trained.network, Backbone)
    best = trained.heads.head(int(trained.losses.argmin()))
    return answers(ClusteringNetwork(trained.network, best).eval(), bench)


def _labels(bench: Workbench, settings: HeadSettings) -> Labels:
    labels: Labels = probabilities(bench.head(settings), bench.asked_features).argmax(dim=1).numpy()
    return labels
