"""Joint-SH and Joint-MH: the feature model trained together with one head, or with many (paper, ablation of III-B).

The paper uses these to show why stage 2 keeps the feature model frozen: both score far lower there. The first branch
stays fixed, so that similarities are still measured with the features of stage 1.

Shapes: N images, M of them in a batch, n at once through the network, D feature width, K clusters, H heads.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from spice.data.batches import batches
from spice.data.images import Images
from spice.engine.run import Run
from spice.models.heads import Heads
from spice.randomness import seeded
from spice.settings import HeadSettings
from spice.stages.heads.inputs import batch_size
from spice.stages.heads.losses import head_losses, label_table
from spice.stages.joint.train import Learner

# Images with gradients at once: a batch of a thousand would need gigabytes.
PORTION = 100


class JointHeads(NamedTuple):
    """The feature model and the heads, trained together."""

    network: nn.Module
    heads: Heads
    losses: Tensor  # (H,) mean over the batches of the last epoch: the least is the best head's


def train_joint_heads(
    learner: Learner, images: Images, features: Tensor, settings: HeadSettings, run: Run, *, network_rate: float = 1e-4
) -> JointHeads:
    """Train a network and `settings.heads` heads (one: Joint-SH, several: Joint-MH) on their own pseudo-labels.

    Args:
        learner: its network, from images to features (n, D), is trained in place, starting from stage 1.
        features: (N, D) of the plain images by the network as it was, for the prototypes.
        network_rate: Adam's learning rate for the network; the paper gives none, the heads' would destroy it.
    """
    network, batch = learner.network.to(run.device).train(), batch_size(len(images), settings)
    with seeded(run.seed, "joint heads", "weights"):
        heads = Heads(settings.heads, features.shape[1], settings.clusters, hidden=settings.hidden).to(run.device)
    optimizer = torch.optim.Adam(heads.parameters(), lr=settings.learning_rate)
    optimizer.add_param_group({"params": list(network.parameters()), "lr": network_rate})
    checkpoints = run.checkpoints(settings.model_dump() | {"images": len(images), "network_rate": network_rate})

    start, losses, saved = 0, torch.full((len(heads),), float("nan")), checkpoints.load()
    if saved is not None:
        network.load_state_dict(saved.state["network"])
        heads.load_state_dict(saved.state["heads"])
        optimizer.load_state_dict(saved.state["optimizer"])
        start, losses = saved.step, saved.state["losses"]
    per_epoch = len(images) // batch
    for epoch in range(start, settings.epochs):
        total = torch.zeros(settings.heads, device=run.device)
        for part in batches(len(images), batch, seed=run.seed, stage="joint heads", epoch=epoch):
            pixels = images.take(part.images)
            # E-step: labels from the predictions for the weak views, and from the fixed features.
            with torch.no_grad():
                views = learner.weak(pixels, run.generator("joint heads", "weak", epoch, part.number)).to(run.device)
                logits = torch.cat([heads(network(some)) for some in torch.split(views, PORTION)], dim=1)  # (H, M, K)
                bank = features[part.images].to(run.device)
                labels = label_table(bank, logits.softmax(dim=2), settings)  # (H, M, K)
            # M-step: heads and network learn these labels from the strong views.
            views = learner.strong(pixels, run.generator("joint heads", "strong", epoch, part.number)).to(run.device)
            optimizer.zero_grad(set_to_none=True)
            total += _learn(network, heads, views, labels, settings)
            optimizer.step()
            run.progress("joint heads", epoch * per_epoch + part.number + 1, settings.epochs * per_epoch)
        losses = (total / per_epoch).cpu()
        if checkpoints.due() or epoch + 1 == settings.epochs:
            state = {"network": network.state_dict(), "heads": heads.state_dict(), "losses": losses}
            checkpoints.save(epoch + 1, state | {"optimizer": optimizer.state_dict()})
    return JointHeads(network.eval(), heads, losses)


def _learn(network: nn.Module, heads: Heads, views: Tensor, labels: Tensor, settings: HeadSettings) -> Tensor:
    """Add up the gradients of every head's loss over the batch, a portion of images at a time; the losses (H,)."""
    kept = labels.sum(dim=(1, 2))  # (H,)
    losses = torch.zeros(len(heads), device=views.device)
    for some, here in zip(torch.split(views, PORTION), torch.split(labels, PORTION, dim=1), strict=True):
        logits = heads(network(some))  # (H, n, K)
        if not here.any():
            continue
        share = here.sum(dim=(1, 2)) / kept  # a mean over the portion, as its part of the batch's mean
        parts = share * head_losses(logits, here, settings)
        parts.sum().backward()  # type: ignore[no-untyped-call]
        losses += parts.detach()
    return losses
