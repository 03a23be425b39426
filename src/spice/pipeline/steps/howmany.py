"""The number of groups, and groups within groups: not in the paper, and shared by all numbers of clusters."""

import numpy as np

from spice.arrays import save_array, save_npz
from spice.engine.run import Run
from spice.pipeline.work import Work
from spice.runs.artifacts import CANDIDATES, TREE
from spice.runs.records import CandidateCount, HowManyResult, TreeResult
from spice.stages.groups.curve import NEIGHBORS, neighbor_information
from spice.stages.groups.given_labels import labels_by_row
from spice.stages.groups.howmany import GivenLabels, HowMany, how_many, principal_components
from spice.stages.groups.merge_tree import merge_tree
from spice.stages.groups.peaks import plausible


def howmany(work: Work, run: Run) -> HowManyResult:
    """Find the number of groups, and keep a partition for each plausible number."""
    asked = work.settings.how_many
    assert asked is not None
    features = work.features.numpy()
    found = how_many(
        features, least=asked.least, most=asked.most, given=_given(work), seed=run.seed, progress=run.progress
    )
    save_array(work / CANDIDATES, found.partitions)
    return _result(found)


def tree(work: Work, run: Run) -> TreeResult:
    """Merge many small groups in pairs."""
    points = principal_components(work.features.numpy(), np.random.default_rng([run.seed, 1]))
    neighbors = np.asarray(work.neighbors[:, :NEIGHBORS])
    found = merge_tree(points, neighbors, seed=run.seed)
    save_npz(work / TREE, found._asdict(), compress=True)
    information = neighbor_information(found.leaf.astype(np.int64), neighbors)
    return TreeResult(leaves=len(found.merges) + 1, information=round(information, 6))


def _given(work: Work) -> GivenLabels | None:
    """The labels that the user gave, as numbers."""
    if not work.settings.given:
        return None
    given = labels_by_row(work.settings.given, work.inputs.collection.paths)
    return GivenLabels(given.row, given.name)


def _result(found: HowMany) -> HowManyResult:
    curve = found.curve
    return HowManyResult(
        clusters=found.clusters,
        candidates=[
            CandidateCount(
                clusters=peak.clusters,
                score=round(peak.score, 4),
                prominence=round(peak.prominence, 4),
                spread=round(peak.spread, 4),
            )
            for peak in found.candidates
        ],
        counts=curve.counts,
        score=[round(value, 4) for value in curve.mean.tolist()],
        spread=[round(value, 4) for value in curve.score.std(axis=0, ddof=1).tolist()],
        null=round(found.null, 4),
        drawn=found.drawn,
        finest_peak=plausible(curve)[-1].clusters,
        communities=found.communities.fine,
        coarse_communities=found.communities.coarse,
        fits_labels=found.fits_labels,
    )
