"""Running a table: measures the missing cells, one data set and one seed after another."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from spice.benchmark.choice import Choice, choices
from spice.benchmark.collected import Collected, collect, few_labels
from spice.benchmark.methods import LABELED, METHODS
from spice.benchmark.rivals import embedded
from spice.benchmark.tables.catalog import TABLES, SizeName, Table
from spice.benchmark.tables.result import Cell, Cells, processor, settings_key, versions
from spice.benchmark.workbench import Workbench
from spice.engine.device import choose_device
from spice.engine.processes import Processes, processes_from_environment
from spice.engine.run import Run
from spice.errors import UserError
from spice.evaluate import accuracy, score
from spice.evaluate.probe import LabeledFeatures, linear_accuracy
from spice.models.encoders import SCRATCH
from spice.progress import Progress, silent
from spice.settings_file import apply_file
from spice.stages.encode import encode_plain
from spice.stages.joint.sampling import Labeled


class Wanted(NamedTuple):
    """A cell to measure."""

    choice: Choice
    seed: int
    method: str


class Selection(NamedTuple):
    """Some or all cells of a table."""

    table: Table
    size: SizeName
    seeds: Sequence[int]
    methods: Sequence[str] = ()  # empty: all
    data: Sequence[str] = ()  # empty: all
    settings_file: Path | None = None  # overrides settings of all data sets

    def choices(self) -> list[Choice]:
        """The settings of the table for each data set."""
        found = [with_rivals_left_out(choice) for choice in choices(self.table, self.size)]
        return found if self.settings_file is None else [apply_file(choice, self.settings_file) for choice in found]

    def cells(self) -> Iterator[Wanted]:
        """Seed by seed, so that a stopped run has all rows for some seeds, not some rows for all."""
        table, available = self.table, self.choices()
        data = [choice.dataset for choice in available]
        for kind, names, known in (("method", self.methods, table.methods), ("data set", self.data, data)):
            for name in set(names) - set(known):
                raise UserError(
                    f"table {table.name} at size {self.size} has no {kind} {name!r}: choose one of {', '.join(known)}"
                )
        for choice in available:
            for seed in self.seeds:
                for method in table.methods:
                    chosen = method in (self.methods or [method]) and choice.dataset in (self.data or [choice.dataset])
                    again = seed != self.seeds[0] and not _is_random(method, choice)
                    if chosen and not again and method not in choice.left_out:
                        yield Wanted(choice.of_row(method), seed, method)


def with_rivals_left_out(choice: Choice) -> Choice:
    """The settings, leaving out rivals whose packages are not installed."""
    why = "needs other packages: pip install umap-learn leidenalg igraph"
    missing = {} if embedded.installed() else {f"features + {rival}": why for rival in embedded.NEED_PACKAGES}
    return choice.model_copy(update={"left_out": choice.left_out | missing})


def run(selection: Selection, out: Path, *, device: str = "auto", progress: Progress = silent) -> list[Cell]:
    """Measure the missing cells; return all selected cells, in the order of the table.

    The folder `out` gets `cells/`, and `work/` with images, features and checkpoints. Processes started by torchrun
    share the data sets; the last one to finish finds all cells.
    """
    mine = data_of(processes_from_environment(), selection.size)
    table, cells = selection.table, Cells(out / "cells")
    wanted = [each for each in selection.cells() if each.choice.dataset in mine]
    missing = [each for each in wanted if cells.find(table.which, each.choice, each.method, each.seed) is None]
    finished = len(wanted) - len(missing)
    progress(f"{table.name}: cells", finished, len(wanted))
    images: dict[str, Collected] = {}
    for done, (choice, seed, method) in enumerate(missing, start=finished + 1):
        parts = choice.dataset, table.which, choice.train or "all", choice.test or "all", choice.pixels
        place = out / "work" / "-".join(map(str, parts))
        if choice.dataset not in images:
            images = {choice.dataset: collect(choice, table.which, place, progress=progress)}
        here = images[choice.dataset]
        bench = Workbench(here, choice, Run(seed, place / "stages", choose_device(device), progress=progress))
        cells.keep(table.which, choice, measure(bench, here, method, table))
        progress(f"{table.name}: cells", done, len(wanted))
    return saved(selection, out)


def data_of(processes: Processes, size: SizeName) -> list[str]:
    """The data sets that this process measures, the same in every table, so that only one process writes a folder."""
    names = sorted({choice.dataset for table in TABLES.values() for choice in choices(table, size)})
    return names[processes.rank :: processes.count]


def saved(selection: Selection, out: Path) -> list[Cell]:
    """The selected cells that are measured."""
    cells, which = Cells(out / "cells"), selection.table.which
    measured = (cells.find(which, each.choice, each.method, each.seed) for each in selection.cells())
    return [cell for cell in measured if cell is not None]


def measure(bench: Workbench, images: Collected, method: str, table: Table) -> Cell:
    """Run the method, and only then read the true labels, except for methods that learn from them."""
    started = time.process_time()
    if method in ("Before", "After"):
        scores = quality(bench, images, after=method == "After")
    elif method in LABELED:
        known = images.known()
        few = few_labels(known, bench.choice.semi.labels, seed=bench.run.seed)
        given = torch.arange(len(known)) if method == "supervised" else few
        labels = LABELED[method](bench, Labeled(given, torch.from_numpy(known)[given]))
        # These labels are classes, so ACC needs no matching. NMI and ARI do not depend on the numbers of classes.
        truth = images.truth()
        reached = score(labels, truth)
        scores = {"ACC": float((labels == truth).mean()), "NMI": reached.nmi, "ARI": reached.ari}
    else:
        reached = score(METHODS[method].fit(bench), images.truth())
        scores = {"ACC": reached.acc, "balanced ACC": reached.balanced_acc, "NMI": reached.nmi, "ARI": reached.ari}
    return Cell(
        data=bench.choice.dataset,
        method=method,
        seed=bench.run.seed,
        scores=scores,
        learned=len(images.learn),
        scored=len(images.scored),
        seconds=time.process_time() - started - bench.spent_here + sum(bench.charged.values()),
        notes=list(dict.fromkeys(bench.notes)),
        key=settings_key(table.which, bench.choice, method),
        at=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        versions=versions(),
        processor=processor(),
    )


def quality(bench: Workbench, images: Collected, *, after: bool) -> dict[str, float]:
    """Table VI: accuracy of a linear probe (supervised) and of the clusters, before or after joint training.

    Before joint training, also the accuracy and share of the reliable labels.
    """
    if after:
        refined = bench.refined()
        encoder = bench.encoder if refined is None else refined.encoder
        learned, scored = encode_plain(encoder, images.learn), encode_plain(encoder, images.scored)
        clusters = METHODS["SPICE"].fit(bench)
    else:
        learned, scored = bench.features, bench.scored_features
        clusters = METHODS["SPICE-s"].fit(bench)
    known, truth = images.known(), images.truth()
    probe = linear_accuracy(LabeledFeatures(learned.numpy(), known), LabeledFeatures(scored.numpy(), truth))
    scores = {"supervised": probe, "unsupervised": accuracy(clusters, truth)}
    if not after:
        trusted = bench.reliable()
        right = accuracy(trusted.cluster.numpy(), known[trusted.image.numpy()])
        scores |= {"reliable labels": right, "share reliable": len(trusted.image) / len(known)}
    return scores


def _is_random(method: str, choice: Choice) -> bool:
    """Whether the result depends on the seed. For agglomerative clustering, only the features may."""
    same_features = choice.one_encoder or choice.encoder != SCRATCH
    return method != "agglomerative" and not (method == "features + agglomerative" and same_features)
