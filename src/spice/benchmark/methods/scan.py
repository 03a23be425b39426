"""SCAN on the same feature model as SPICE: its neighbor objective alone (SCAN*), and with self-labeling (SCAN).

Shapes: A images to predict, B of those to learn from in a step, K clusters.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.benchmark.choice import SelfLabelingSettings
from spice.benchmark.rivals import scan
from spice.benchmark.rivals.classic import Labels
from spice.benchmark.semi import predict
from spice.benchmark.workbench import Workbench
from spice.data.images import Images
from spice.engine.device import placed
from spice.engine.run import Run
from spice.errors import UserError
from spice.stages.joint.train import ClusteringNetwork, Learner


def objective(bench: Workbench) -> Labels:
    """Labels (A,) by the head on frozen features."""
    head = scan.train(bench.features.numpy(), bench.clusters, seed=bench.run.seed)
    with torch.no_grad():
        labels: Labels = head(bench.scored_features).argmax(dim=1).numpy()
    return labels


def self_labeled(bench: Workbench) -> Labels:
    """Labels (A,) by feature model and head after self-labeling."""
    encoder = bench.encoder
    if encoder.module is None:
        raise UserError(f"{encoder.name} cannot be trained, so SCAN's self-labeling cannot follow")
    head = scan.train(bench.features.numpy(), bench.clusters, seed=bench.run.seed)
    network = placed(ClusteringNetwork(copy.deepcopy(encoder.module).requires_grad_(), head), bench.run.device)
    learner = Learner.on_images(
        network, bench.clusters, bench.choice.joint.augment, size=encoder.size, normalization=encoder.normalization
    )
    settings = bench.choice.self_labeling
    run = bench.place("self-labeling", settings.model_dump_json(), bench.choice.features)
    return predict(self_label(learner, bench.learn, settings, run), bench)


def self_label(learner: Learner, images: Images, settings: SelfLabelingSettings, run: Run) -> nn.Module:
    """Train the learner's network in place on its own confident predictions, from strong views.

    Van Gansbeke et al. (2020), third step: where the largest probability of an image exceeds 0.99, it is the label of a
    strong view of the image; classes have equal weight in the loss, however many confident images they have. Ends after
    a fixed number of steps.
    """
    network = learner.network.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    checkpoints = run.checkpoints(settings.model_dump(mode="json") | {"images": len(images)})
    saved = checkpoints.load()
    if saved is not None:
        network.load_state_dict(saved.state["network"])
        optimizer.load_state_dict(saved.state["optimizer"])
    for step in range(saved.step if saved is not None else 0, settings.steps):
        random = run.generator("self-labeling", step)
        drawn = torch.randint(len(images), (min(settings.batch, len(images)),), generator=random)
        pixels = images.take(drawn).to(run.device)
        with torch.no_grad():
            probs = network(learner.weak(pixels, random)).softmax(dim=1)  # (B, K)
        confidence, labels = probs.max(dim=1)
        kept = confidence > settings.threshold
        loss = balanced_cross_entropy(network(learner.strong(pixels, random))[kept], labels[kept])
        if kept.any():
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        run.progress("self-labeling", step + 1, settings.steps, {"sure": float(kept.float().mean())})
        if checkpoints.due():
            checkpoints.save(step + 1, {"network": network.state_dict(), "optimizer": optimizer.state_dict()})
    return network.eval()


def balanced_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy (B, K), (B,) in which every class that occurs has the same weight; 0 without images."""
    if not len(labels):
        return logits.sum()
    counts = labels.bincount(minlength=logits.shape[1])  # (K,)
    weights = 1.0 / (counts.clamp(min=1) * (counts > 0).sum())
    return (F.cross_entropy(logits, labels, reduction="none") * weights[labels]).sum()
