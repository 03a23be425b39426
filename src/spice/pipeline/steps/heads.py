"""Stage 2: clustering heads, and the best of them (III-B, Algorithm 1)."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spice.arrays import save_npz
from spice.data.images import Subset
from spice.engine.run import Run
from spice.errors import UserError
from spice.pipeline.work import Work, save_weights
from spice.progress import log
from spice.runs.artifacts import HEAD, HEAD_LABELS, TREE
from spice.runs.records import HeadsResult, SelectedHead
from spice.stages.groups.merge_tree import MergeTree
from spice.stages.heads.algorithm_1 import TrainedHeads
from spice.stages.heads.select import good_heads
from spice.stages.heads.train import train_heads
from spice.stages.views import open_views, with_fresh_views


def heads(work: Work, run: Run) -> HeadsResult:
    """Train the heads on the views, and select one."""
    views = open_views(work.folders["views"], work.features.numpy())
    if work.settings.views.fresh:
        images = work.images if views.rows is None else Subset(work.images, views.rows)
        views = with_fresh_views(views, images, work.encoder, work.settings.views)
    rows = np.arange(len(work)) if views.rows is None else views.rows  # (n,) that heads learn from
    if len(rows) < len(work):
        log.info("heads learn from %s of %s images, then label all of them", f"{len(rows):,}", f"{len(work):,}")
    # The neighbors of images in a sample are others of the sample.
    neighbors = work.neighbors if views.rows is None else None
    trained = train_heads(views, work.settings.heads, run, neighbors, cut=_cut(work, rows))
    if run.processes.first:
        save_weights(work / HEAD, trained.head)
        labels = np.stack([snapshot.labels.numpy() for snapshot in trained.snapshots])
        save_npz(work / HEAD_LABELS, {"rows": rows[trained.sample], "labels": labels}, compress=True)
    return _result(trained, work, learned_from=len(rows))


def _cut(work: Work, rows: NDArray[np.int64]) -> Tensor | None:
    """The groups that heads start from, (n,); None unless they start from a cut of the merge tree."""
    settings = work.settings.heads
    if settings.start != "cut":
        return None
    with np.load(work / TREE) as saved:
        found = MergeTree(**saved)
    leaves = len(found.merges) + 1
    if settings.clusters > leaves:
        raise UserError(f"the tree of these images can be cut into at most {leaves} groups, got {settings.clusters}")
    return torch.from_numpy(found.cut(settings.clusters)[rows]).long()


def _result(trained: TrainedHeads, work: Work, *, learned_from: int) -> HeadsResult:
    settings, snapshots, best = work.settings.heads, trained.snapshots, trained.best
    return HeadsResult(
        epochs=[snapshot.epoch for snapshot in snapshots],
        loss=[snapshot.loss.tolist() for snapshot in snapshots],
        score=[snapshot.score(settings).tolist() for snapshot in snapshots],
        distinct=[snapshot.distinct.tolist() for snapshot in snapshots],
        selected=SelectedHead(head=best.number, epoch=best.epoch, loss=best.loss),
        good=good_heads(snapshots[-1], settings, excluding=best.number),
        head_agreement=trained.diagnostics.head_agreement,
        learned_from=learned_from,
    )
