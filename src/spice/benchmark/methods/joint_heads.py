"""Joint-SH and Joint-MH: the feature model trained along with one head, or with many (paper, ablation of III-B).

The paper tries these to show why the second stage leaves the feature model alone: both come out far worse there. The
first branch stays fixed, so that similarities are still measured with the features of the first stage.

Shapes: N images, M of them in a batch, n at once through the network, D feature width, K clusters, H heads.
"""

from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from spice.core import prototype_table
from spice.data.batches import batches
from spice.data.images import Images
from spice.engine.checkpoints import Checkpoints
from spice.models.heads import Heads
from spice.progress import Progress, silent
from spice.randomness import generator, seeded
from spice.settings import HeadSettings
from spice.stages.heads.inputs import batch_size
from spice.stages.heads.select import e_step, head_losses
from spice.stages.heads.train import CPU

# Images with gradients at once: a batch of a thousand would need gigabytes.
PORTION = 100


class Recipe(Protocol):
    """Random views of uint8 images."""

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor: ...


class JointHeads(NamedTuple):
    """The feature model and the heads, trained together."""

    network: nn.Module
    heads: Heads
    losses: Tensor  # (H,) mean over the batches of the last epoch: the least is the best head's


def train_joint_heads(
    network: nn.Module,
    images: Images,
    features: Tensor,
    settings: HeadSettings,
    *,
    weak: Recipe,
    strong: Recipe,
    seed: int,
    network_rate: float = 1e-4,
    folder: Path | None = None,
    device: torch.device = CPU,
    progress: Progress = silent,
) -> JointHeads:
    """Train `network` and `settings.heads` heads (one: Joint-SH, several: Joint-MH) on their own pseudo-labels.

    Args:
        network: images to features (n, D); trained in place, from where the first stage left it.
        features: (N, D) of the plain images by the network as it was, for the prototypes.
        network_rate: Adam's learning rate for the network; the paper does not tell one, the heads' would destroy it.
    """
    batch = batch_size(len(images), settings)
    with seeded(seed, "joint heads", "weights"):
        heads = Heads(settings.heads, features.shape[1], settings.clusters, hidden=settings.hidden).to(device)
    network.to(device).train()
    optimizer = torch.optim.Adam(heads.parameters(), lr=settings.learning_rate)
    optimizer.add_param_group({"params": list(network.parameters()), "lr": network_rate})
    identity = settings.model_dump() | {"seed": seed, "images": len(images), "network_rate": network_rate}
    checkpoints = Checkpoints(folder, identity=identity)

    start, losses = _restore_(checkpoints, network, heads, optimizer)
    per_epoch = len(images) // batch
    for epoch in range(start, settings.epochs):
        total = torch.zeros(settings.heads, device=device)
        for part in batches(len(images), batch, seed=seed, stage="joint heads", epoch=epoch):
            pixels = images.take(part.images)
            # E-step: labels from what network and heads say of the weak views, and from the fixed features.
            with torch.no_grad():
                views = weak(pixels, generator(seed, "joint heads", "weak", epoch, part.number)).to(device)
                logits = torch.cat([heads(network(some)) for some in _portions(views)], dim=1)  # (H, M, K)
                bank = features[part.images].to(device)
                labels = prototype_table(bank, logits.softmax(dim=2), **e_step(settings))  # (H, M, K)
            # M-step: heads and network learn them from the strong views.
            views = strong(pixels, generator(seed, "joint heads", "strong", epoch, part.number)).to(device)
            optimizer.zero_grad(set_to_none=True)
            total += _learn(network, heads, views, labels, settings)
            optimizer.step()
            progress("joint heads", epoch * per_epoch + part.number + 1, settings.epochs * per_epoch)
        losses = (total / per_epoch).cpu()
        if checkpoints.due() or epoch + 1 == settings.epochs:
            state = {"network": network.state_dict(), "heads": heads.state_dict(), "losses": losses}
            checkpoints.save(epoch + 1, state | {"optimizer": optimizer.state_dict()})
    return JointHeads(network.eval(), heads, losses)


def _learn(network: nn.Module, heads: Heads, views: Tensor, labels: Tensor, settings: HeadSettings) -> Tensor:
    """Add up the gradients of every head's loss over the batch, a portion of images at a time; the losses (H,)."""
    kept = labels.sum(dim=(1, 2))  # (H,)
    losses = torch.zeros(len(heads), device=views.device)
    for some, here in zip(_portions(views), _portions(labels, dim=1), strict=True):
        logits = heads(network(some))  # (H, n, K)
        if not here.any():
            continue
        share = here.sum(dim=(1, 2)) / kept  # a mean over the portion, as its part of the batch's mean
        parts = share * head_losses(logits, here, settings)
        parts.sum().backward()  # type: ignore[no-untyped-call]
        losses += parts.detach()
    return losses


def _portions(table: Tensor, *, dim: int = 0) -> tuple[Tensor, ...]:
    parts: tuple[Tensor, ...] = table.split(PORTION, dim=dim)  # type: ignore[no-untyped-call]
    return parts


def _restore_(
    checkpoints: Checkpoints, network: nn.Module, heads: Heads, optimizer: torch.optim.Optimizer
) -> tuple[int, Tensor]:
    saved = checkpoints.load()
    if saved is None:
        return 0, torch.full((len(heads),), float("nan"))
    network.load_state_dict(saved.state["network"])
    heads.load_state_dict(saved.state["heads"])
    optimizer.load_state_dict(saved.state["optimizer"])
    return saved.step, saved.state["losses"]
