"""Joint-SH and Joint-MH: the feature model trained together with one head or several (paper, ablation of III-B).

The paper uses these to show why stage 2 keeps the feature model frozen: both score far lower there. Similarities are
still measured with the fixed features of stage 1. As in stage 2, the best head is the one with the lowest loss over the
whole set after any epoch. The network of that epoch is kept with it.

Shapes: N images, M of them in a batch, n at once in the network, D feature width, K clusters, H heads.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from spice.data.batches import batches
from spice.data.images import Images
from spice.engine.run import Run
from spice.models.heads import Head, Heads
from spice.randomness import seeded
from spice.settings import HeadSettings
from spice.stages.heads.inputs import batch_size
from spice.stages.heads.losses import head_losses, label_table
from spice.stages.joint.train import Learner, View

# Images in the network at once: gradients of a thousand would need gigabytes.
PORTION = 100


class JointHeads(NamedTuple):
    """The best head, and the feature model of the same epoch."""

    network: nn.Module
    head: Head
    number: int  # of the head
    epoch: int  # counted from 1
    losses: Tensor  # over the whole set after each epoch, (epochs, H)


class _Best(NamedTuple):
    number: int
    epoch: int
    loss: float
    network: dict[str, Tensor]
    head: dict[str, Tensor]  # of a `Heads` of one


def train_joint_heads(
    learner: Learner, images: Images, features: Tensor, settings: HeadSettings, run: Run, *, network_rate: float = 1e-4
) -> JointHeads:
    """Train a network and `settings.heads` heads (one: Joint-SH, several: Joint-MH) on their own pseudo-labels.

    Args:
        learner: its network, from images to features (n, D), starts from stage 1 and is trained in place.
        features: the fixed features of the plain images, for the prototypes, (N, D).
        network_rate: Adam's learning rate for the network. The paper gives none; the heads' rate is too high for it.
    """
    network, batch = learner.network.to(run.device).train(), batch_size(len(images), settings)
    with seeded(run.seed, "joint heads", "weights"):
        heads = Heads(settings.heads, features.shape[1], settings.clusters, hidden=settings.hidden).to(run.device)
    optimizer = torch.optim.Adam(heads.parameters(), lr=settings.learning_rate)
    optimizer.add_param_group({"params": list(network.parameters()), "lr": network_rate})
    checkpoints = run.checkpoints(settings.model_dump() | {"images": len(images), "network_rate": network_rate})

    start, saved = 0, checkpoints.load()
    losses: list[Tensor] = []  # after each epoch, (H,)
    best: _Best | None = None
    if saved is not None:
        network.load_state_dict(saved.state["network"])
        heads.load_state_dict(saved.state["heads"])
        optimizer.load_state_dict(saved.state["optimizer"])
        start, losses, best = saved.step, list(saved.state["losses"]), _Best(*saved.state["best"])

    def state() -> dict[str, object]:
        learned = {"network": network.state_dict(), "heads": heads.state_dict(), "optimizer": optimizer.state_dict()}
        return learned | {"losses": torch.stack(losses), "best": best and tuple(best)}

    per_epoch = len(images) // batch
    for epoch in range(start, settings.epochs):
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
            _accumulate_gradients(network, heads, views, labels, settings)
            optimizer.step()
            run.progress("joint heads", epoch * per_epoch + part.number + 1, settings.epochs * per_epoch)
        losses.append(whole_set_losses(learner, images, features, heads, settings=settings, run=run))
        best = _better(best, learner.network, heads, losses[-1], epoch + 1)
        checkpoints.save_if_due(epoch + 1, of=settings.epochs, state=state)
    assert best is not None
    network.load_state_dict(best.network)
    selected = heads.part(slice(0, 1))
    selected.load_state_dict(best.head)
    return JointHeads(network.eval(), selected.head(0), best.number, best.epoch, torch.stack(losses))


@torch.no_grad()
def whole_set_losses(
    learner: Learner, images: Images, features: Tensor, heads: Heads, *, settings: HeadSettings, run: Run
) -> Tensor:
    """The loss of every head with the whole set as one batch, on the same views after every epoch: (H,)."""
    learner.network.eval()

    def logits(view: View, kind: str) -> Tensor:
        parts = []
        for number, some in enumerate(torch.arange(len(images)).split(PORTION)):  # type: ignore[no-untyped-call]
            made = view(images.take(some), run.generator("joint heads", "select", kind, number))
            parts.append(heads(learner.network(made.to(run.device))))
        return torch.cat(parts, dim=1)  # (H, N, K)

    labels = label_table(features.to(run.device), logits(learner.weak, "weak").softmax(dim=2), settings)
    losses = head_losses(logits(learner.strong, "strong"), labels, settings)
    learner.network.train()
    return losses.cpu()


def _better(best: _Best | None, network: nn.Module, heads: Heads, losses: Tensor, epoch: int) -> _Best:
    """The best head of this epoch if it is better than the best so far, else that one."""
    number = int(losses.argmin())
    if best is not None and losses[number] >= best.loss:
        return best
    kept = {name: value.clone() for name, value in network.state_dict().items()}
    head = {name: value.clone() for name, value in heads.part(slice(number, number + 1)).state_dict().items()}
    return _Best(number, epoch, float(losses[number]), kept, head)


def _accumulate_gradients(
    network: nn.Module, heads: Heads, views: Tensor, labels: Tensor, settings: HeadSettings
) -> None:
    """Accumulate the gradients of every head's loss over the batch, a portion of images at a time."""
    counts = labels.sum(dim=(1, 2))  # (H,)
    for some, here in zip(torch.split(views, PORTION), torch.split(labels, PORTION, dim=1), strict=True):
        logits = heads(network(some))  # (H, n, K)
        if not here.any():
            continue
        share = here.sum(dim=(1, 2)) / counts  # weight of the portion's mean loss in that of the batch
        (share * head_losses(logits, here, settings)).sum().backward()  # type: ignore[no-untyped-call]
