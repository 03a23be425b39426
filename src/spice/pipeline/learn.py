"""`spice learn`: train a head on the edits of a run, and propose which images to move."""

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from spice.engine.device import choose_device
from spice.engine.run import Run
from spice.pipeline.resolve import stored_settings
from spice.progress import Progress, silent
from spice.runs import Groups, Result, explain_write_errors, open_result
from spice.runs.artifacts import MODEL
from spice.runs.editor import Editor
from spice.runs.edits import Learned
from spice.stages.bank import build_bank
from spice.stages.groups.corrections import Corrections, corrections_from_edits, edits_before_learning
from spice.stages.groups.label_spreading import NeighborGraph
from spice.stages.groups.learn import LearnedHead, learn_groups
from spice.stages.model import ENCODER, TrainedModel

LEARNED = "learned"  # folder of the models, in the run folder


class Proposal(NamedTuple):
    """What learning would change. Nothing takes effect before `accept`."""

    run: Path
    revision: int  # of the edits that it learned from
    before: Groups
    group: NDArray[np.int32]  # (N,) the proposed group of each image
    corrections: Corrections
    learned: LearnedHead

    @property
    def moved(self) -> NDArray[np.int64]:
        """The rows whose group would change."""
        return np.flatnonzero(self.group != self.before.group)


def propose(run: Path, *, device: str = "auto", progress: Progress = silent) -> Proposal:
    """Learn from the edits of the current result. Takes seconds, because it uses the features of the run."""
    result = open_result(run)
    editor = Editor(run, result)
    chosen = choose_device(device)  # an unknown one is refused at once
    edits, before = editor.edits, editor.groups
    own = edits_before_learning(edits)
    features = np.array(result.answer_features, dtype=np.float32)  # a copy: torch wants to own it
    corrections = corrections_from_edits(result.base, result.groups_after(own), own, features)
    settings = stored_settings(result.entry.settings, run, advice="run spice cluster again first")
    graph = NeighborGraph(np.asarray(result.neighbors), np.asarray(result.similarities))
    here = Run(seed=settings.seed, device=chosen, progress=progress)
    learned = learn_groups(features, graph, corrections, settings.heads, here)
    active = learned.group >= 0  # images in groups that are set aside stay there
    group = before.group.copy()
    group[active] = np.array(corrections.numbers, dtype=np.int32)[learned.group[active]]
    group[before.by_person] = before.group[before.by_person]
    return Proposal(run, edits.revision, before, group, corrections, learned)


def accept(proposal: Proposal) -> Groups:
    """Apply the proposal as one edit, which can be undone. StaleEditsError if the edits have changed since."""
    run, result = proposal.run, open_result(proposal.run)
    name = f"{LEARNED}/{result.name}-{proposal.revision}"
    with explain_write_errors(run):
        if (run / name).exists():  # of the same edits, before an undo
            shutil.rmtree(run / name)
        _save_model(proposal, result, run / name)
        rows = proposal.moved
        moved = {
            int(group): result.base.images(rows[proposal.group[rows] == group])
            for group in np.unique(proposal.group[rows])
        }
        operation = Learned(model=name, outputs=proposal.corrections.numbers, moved=moved)
        return Editor(run, result).do(operation, expected=proposal.revision)


def _save_model(proposal: Proposal, result: Result, folder: Path) -> None:
    """The result's model with the new head, and a bank of its answers, for `spice predict`."""
    source = result / MODEL
    model = TrainedModel.load(source, device="cpu")
    place = {number: position for position, number in enumerate(proposal.corrections.numbers)}
    rows = np.array([row for row, group in enumerate(proposal.group.tolist()) if group in place])
    cluster = torch.tensor([place[group] for group in proposal.group[rows].tolist()])
    features = torch.from_numpy(np.asarray(result.answer_features[rows], dtype=np.float32))
    count = result.answer.neighbors
    bank = build_bank(features, cluster, clusters=len(place), neighbors=count, seed=0)
    trained = TrainedModel(model.encoder, proposal.learned.head, bank, threshold=model.threshold)
    trained.save(folder, embed=(source / ENCODER).exists())
