"""SCAN's self-labeling: the whole network learns, from strong views, what it says surely of the images.

Van Gansbeke et al. (2020), third step: where the largest probability of an image exceeds 0.99, it is the label of a
strong view of the image; classes count alike in the loss, however many sure images they have. Ends after a fixed number
of steps.

Shapes: N images, B of them in a step, K clusters.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spice.augment import Strong, Weak
from spice.benchmark.choice import SelfLabelingSettings
from spice.engine.checkpoints import Checkpoints
from spice.progress import Progress, silent
from spice.randomness import generator
from spice.settings import AugmentSettings, Normalization
from spice.stages.joint.train import Images


def self_label(
    network: nn.Module,
    images: Images,
    settings: SelfLabelingSettings,
    *,
    size: int,
    normalization: Normalization,
    augment: AugmentSettings,
    seed: int,
    folder: Path | None = None,
    progress: Progress = silent,
) -> nn.Module:
    """Train `network`, images -> (B, K) logits, in place."""
    weak = Weak(augment, size=size, normalization=normalization)
    strong = Strong(augment, size=size, normalization=normalization)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    identity = settings.model_dump(mode="json") | {"seed": seed, "images": len(images)}
    checkpoints = Checkpoints(folder, identity=identity)
    device = next(network.parameters()).device
    network.train()
    for step in range(_restore_(network, optimizer, checkpoints), settings.steps):
        random = generator(seed, "self-labeling", step)
        drawn = torch.randint(len(images), (min(settings.batch, len(images)),), generator=random)
        pixels = images.take(drawn).to(device)
        with torch.no_grad():
            probs = network(weak(pixels, random)).softmax(dim=1)  # (B, K)
        sure, labels = probs.max(dim=1)
        kept = sure > settings.threshold
        loss = balanced_cross_entropy(network(strong(pixels, random))[kept], labels[kept])
        if kept.any():
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        progress("self-labeling", step + 1, settings.steps, {"sure": float(kept.float().mean())})
        if checkpoints.due():
            checkpoints.save(step + 1, {"network": network.state_dict(), "optimizer": optimizer.state_dict()})
    return network.eval()


def balanced_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy (B, K), (B,) in which every class that is there has the same weight; 0 of no image."""
    if not len(labels):
        return logits.sum()
    counts = labels.bincount(minlength=logits.shape[1])  # (K,)
    weights = 1.0 / (counts.clamp(min=1) * (counts > 0).sum())
    return (F.cross_entropy(logits, labels, reduction="none") * weights[labels]).sum()


def _restore_(network: nn.Module, optimizer: torch.optim.Optimizer, checkpoints: Checkpoints) -> int:
    saved = checkpoints.load()
    if saved is None:
        return 0
    network.load_state_dict(saved.state["network"])
    optimizer.load_state_dict(saved.state["optimizer"])
    return saved.step
