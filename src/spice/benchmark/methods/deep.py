"""The rivals of `spice.benchmark.deep` as methods of the tables.

Shapes: N images to learn from, A images to score, D feature width, K clusters.
"""

import copy
import time
from pathlib import Path
from typing import TypeVar

import torch

from spice.benchmark.choice import Choice
from spice.benchmark.deep.cc import CC
from spice.benchmark.deep.idfd import IDFD
from spice.benchmark.deep.iic import IIC
from spice.benchmark.deep.objective import Objective, Pictures, Schedule, Start, train
from spice.benchmark.deep.pica import PICA
from spice.benchmark.deep.ruc import RUC, clean_labels
from spice.benchmark.deep.scan import NeighborStep, SelfLabeling
from spice.benchmark.rivals.classic import Labels, kmeans, nearest_means
from spice.benchmark.workbench import Workbench
from spice.data.images import Images, InColor
from spice.errors import UserError
from spice.files import write_text
from spice.models.backbone import Backbone
from spice.randomness import seeded
from spice.stages.features.train import network_card, untrained_network
from spice.stages.joint.train import ClusteringNetwork

AnObjective = TypeVar("AnObjective", bound=Objective)

# The trainings of each method, in order.
OBJECTIVES: dict[str, tuple[type[Objective], ...]] = {
    "IIC": (IIC,),
    "PICA": (PICA,),
    "CC": (CC,),
    "IDFD": (IDFD,),
    "SCAN*": (NeighborStep,),
    "SCAN": (NeighborStep, SelfLabeling),
    "RUC (SCAN)": (NeighborStep, SelfLabeling, RUC),
    "RUC (SPICE-s)": (RUC,),
}
TUNED = (NeighborStep, SelfLabeling, RUC)  # start from the feature model of stage 1


def schedule(kind: type[Objective], choice: Choice) -> Schedule:
    """The published schedule, changed by the settings of the table.

    Self-labeling keeps its learning rate, because a higher one would make its trained head forget.
    """
    published, rivals = kind.published, choice.rivals
    epochs = rivals.tuning_epochs if kind in TUNED else rivals.epochs
    faster = 1.0 if kind is SelfLabeling else rivals.faster
    return published._replace(
        epochs=epochs or published.epochs,
        batch=rivals.batch or published.batch,
        learning_rate=faster * published.learning_rate,
    )


def from_scratch(kind: type[Objective], bench: Workbench) -> Objective:
    """A rival, trained from random weights."""
    with seeded(bench.run.seed, "rivals", kind.__name__):
        backbone = untrained_network(bench.learn, bench.choice.features, bench.run)
        objective = kind.of(Start(backbone, bench.clusters, torch.empty(len(bench.learn), 0), bench.run.seed))
    return learned(objective, bench)


def clusters(kind: type[Objective], bench: Workbench) -> Labels:
    """Labels (A,) by a rival that is trained from random weights and predicts clusters."""
    return labels_of(from_scratch(kind, bench), bench)


def idfd(bench: Workbench) -> Labels:
    """Labels (A,) by k-means on IDFD's features."""
    network = from_scratch(IDFD, bench)
    shown, scored = (pictures(images, IDFD, bench) for images in (bench.learn, bench.scored))
    features = shown.outputs(network, bench.run.device).numpy()
    labels = kmeans(features, bench.clusters, seed=bench.run.seed)
    return nearest_means(features, labels, scored.outputs(network, bench.run.device).numpy()) if bench.split else labels


def scan_neighbors(bench: Workbench) -> NeighborStep:
    """SCAN's clustering step, trained after stage 1."""
    encoder = bench.encoder
    if encoder.module is None:
        raise UserError(f"{encoder.name} cannot be trained, as SCAN needs; use `features + SCAN`")
    start = Start(copy.deepcopy(encoder.module).requires_grad_(), bench.clusters, bench.features, bench.run.seed)
    with seeded(bench.run.seed, "rivals", "scan"):
        objective = NeighborStep(start)
    return learned(objective, bench, encoder.fingerprint())


def scan_clusters(bench: Workbench) -> Labels:
    """Labels (A,) by SCAN without self-labeling."""
    return labels_of(scan_neighbors(bench), bench)


def scan_self_labeled(bench: Workbench) -> SelfLabeling:
    """SCAN's self-labeling, trained after its clustering step."""
    objective = SelfLabeling(scan_neighbors(bench).network, threshold=bench.choice.rivals.confident)
    before = schedule(NeighborStep, bench.choice)
    return learned(objective, bench, bench.encoder.fingerprint(), before, objective.threshold)


def scan(bench: Workbench) -> Labels:
    """Labels (A,) by SCAN."""
    return labels_of(scan_self_labeled(bench), bench)


def ruc_after_scan(bench: Workbench) -> Labels:
    """Labels (A,) by RUC on SCAN's result."""
    before = [schedule(kind, bench.choice) for kind in (NeighborStep, SelfLabeling)]
    network = scan_self_labeled(bench).network
    assert isinstance(network, ClusteringNetwork)
    return _ruc(network, bench, before)


def ruc_after_heads(bench: Workbench) -> Labels:
    """Labels (A,) by RUC on the result of stage 2."""
    module = bench.encoder.module
    if module is None:
        raise UserError(f"{bench.encoder.name} cannot be trained, as RUC needs; use another encoder")
    return _ruc(ClusteringNetwork(module, bench.head(bench.choice.heads)), bench, bench.choice.heads)


def _ruc(network: ClusteringNetwork, bench: Workbench, *depends: object) -> Labels:
    network, confident = network.to(bench.run.device).eval(), bench.choice.rivals.confident
    probs = pictures(bench.learn, RUC, bench).outputs(network, bench.run.device).softmax(dim=1)  # (N, K)
    clean = clean_labels(probs, bench.features, confident=confident)
    if not clean.any():
        bench.notes.append(f"RUC found no clean label (none above {confident}) and changed nothing")
        return pictures(bench.scored, RUC, bench).labels(network, bench.run.device)
    kinds = len(probs.argmax(dim=1)[clean].unique())  # type: ignore[no-untyped-call]
    bench.notes.append(f"RUC found {int(clean.sum())} clean labels of {len(clean)}, of {kinds} clusters")
    assert isinstance(network.backbone, Backbone)
    with seeded(bench.run.seed, "rivals", "ruc"):
        objective = RUC(network.backbone, bench.clusters, probs.argmax(dim=1), clean)
    return labels_of(learned(objective, bench, bench.encoder.fingerprint(), confident, *depends), bench)


def learned(objective: AnObjective, bench: Workbench, *depends: object) -> AnObjective:
    """The objective, trained now or before. Either way, its processor time counts for the method."""
    kind, choice = type(objective), bench.choice
    chosen, shown = schedule(kind, choice), pictures(bench.learn, kind, bench)
    run = bench.place(kind.__name__.lower(), chosen, choice.features, choice.joint.augment, *depends)
    started = time.process_time()
    train(objective, shown, chosen, run)
    spent = time.process_time() - started
    assert run.folder is not None
    bench.spent_here += spent
    bench.charged[run.folder.name] = _total_seconds(run.folder / "seconds", spent)
    return objective


def labels_of(objective: Objective, bench: Workbench) -> Labels:
    """Labels (A,) of the images to score."""
    return pictures(bench.scored, type(objective), bench).labels(objective, bench.run.device)


def pictures(images: Images, kind: type[Objective], bench: Workbench) -> Pictures:
    """Images in the form that the rival's network takes."""
    card = bench.encoder if kind in TUNED else network_card(bench.learn, bench.choice.features)
    in_color = InColor(images, len(card.normalization.mean))
    return Pictures(in_color, bench.choice.joint.augment, card.size, card.normalization)


def _total_seconds(path: Path, spent: float) -> float:
    """Processor seconds of a training over all runs that took part in it, this one included."""
    total = spent + (float(path.read_text(encoding="utf-8")) if path.is_file() else 0.0)
    write_text(path, str(total))
    return total
