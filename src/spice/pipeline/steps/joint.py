"""Stage 3: encoder and head trained together on reliable labels (III-C). Only with `--refine`."""

import torch

from spice.arrays import save_array
from spice.engine.run import Run
from spice.errors import warn_user
from spice.models.weights import save_network
from spice.pipeline.work import Work, save_weights
from spice.runs.artifacts import (
    REFINED_ENCODER,
    REFINED_FEATURES,
    REFINED_HEAD,
    REFINED_NEIGHBORS,
    REFINED_SIMILARITIES,
)
from spice.runs.records import ClusteringStats, JointResult
from spice.stages.encode import probabilities
from spice.stages.joint.checks import RefinementRejectedWarning
from spice.stages.joint.refine import Refined, Stage2, refine
from spice.stages.joint.sampling import Labeled
from spice.stages.reliability import labels_to_learn


def joint(work: Work, run: Run) -> JointResult:
    """Learn the reliable labels and those of images that a person placed; check the result against stage 2's."""
    settings = work.settings
    assert settings.joint is not None
    stage2 = stage_2_result(work)
    labeled = training_labels(work, stage2, run)
    if len(labeled.image) == 0:
        return _nothing_learned("no image is reliable, so there is nothing to learn from")
    if bool((labeled.cluster == labeled.cluster[0]).all()):  # such as images of one color, on which training diverges
        return _nothing_learned("all labels to learn are of one cluster, so there is nothing to tell apart")
    found = refine(stage2, labeled, settings.joint, run)
    used = not found.failed_checks or not settings.joint.checks
    if not used:
        _warn(found.failed_checks)
    if run.processes.first:
        _save(work, found)
    return JointResult(
        labeled=len(labeled.image),
        given=len(settings.placed),
        moved=int((found.probs.argmax(dim=1) != stage2.probs.argmax(dim=1)).sum()),
        loss=[step.loss for step in found.history],
        taught=[step.confident for step in found.history],
        before=ClusteringStats(**found.before._asdict()),
        after=ClusteringStats(**found.after._asdict()),
        failed_checks=found.failed_checks,
        used=used,
    )


def stage_2_result(work: Work) -> Stage2:
    """The result of stage 2, which stage 3 starts from."""
    features = torch.clone(work.features)
    probs = probabilities(work.head, features)
    images, distinct = work.learned_images, work.inputs.collection.distinct
    return Stage2(images, work.encoder, work.head, features, probs, work.neighbors, work.counted_neighbors, distinct)


def training_labels(work: Work, stage2: Stage2, run: Run) -> Labeled:
    """The reliable labels, and those of images that a person placed."""
    labeled = labels_to_learn(stage2.probs, stage2.neighbors, work.settings.reliability, seed=run.seed)
    return labeled.override(work.settings.placed, work.inputs.collection.paths)


def _nothing_learned(reason: str) -> JointResult:
    _warn([reason])
    return JointResult(
        labeled=0, given=0, moved=0, loss=[], taught=[], before=None, after=None,
        failed_checks=[reason], used=False,
    )  # fmt: skip


def _save(work: Work, found: Refined) -> None:
    if found.encoder.card is not None:
        save_network(work / REFINED_ENCODER, found.encoder.module, found.encoder.card)
    else:
        save_weights(work / REFINED_ENCODER, found.encoder.module)
    save_weights(work / REFINED_HEAD, found.head)
    save_array(work / REFINED_FEATURES, found.features.numpy())
    save_array(work / REFINED_NEIGHBORS, found.neighbors.index.numpy())
    save_array(work / REFINED_SIMILARITIES, found.neighbors.similarity.numpy())


def _warn(failed_checks: list[str]) -> None:
    warn_user(
        f"joint training was rejected; keeping the stage-2 result: {'; '.join(failed_checks)}",
        RefinementRejectedWarning,
    )
