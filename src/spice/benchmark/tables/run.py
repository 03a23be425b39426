"""Running a table: every cell that is not there yet, one data set and one seed after another."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from spice.benchmark.choice import Choice
from spice.benchmark.collected import Collected, collect, few_labels
from spice.benchmark.methods import LABELED, METHODS
from spice.benchmark.tables.catalog import SizeName, Table
from spice.benchmark.tables.cells import Cell, Cells, now, settings_key, versions
from spice.benchmark.tables.quality import quality
from spice.benchmark.tables.sizes import choices
from spice.benchmark.workbench import Workbench
from spice.engine.device import choose
from spice.engine.run import Run
from spice.errors import UserError
from spice.evaluate import score
from spice.models.encoders import SCRATCH
from spice.progress import Progress, silent
from spice.stages.joint.draws import Labeled


class Wanted(NamedTuple):
    """A cell to measure."""

    choice: Choice
    seed: int
    method: str


def run(
    table: Table,
    size: SizeName,
    *,
    seeds: Sequence[int],
    out: Path,
    only: Sequence[str] = (),
    data: Sequence[str] = (),
    root: Path | None = None,
    device: str = "auto",
    progress: Progress = silent,
) -> list[Cell]:
    """All cells of the table that are wanted, those from earlier runs included, in the order of the table.

    Args:
        out: gets `cells/`, and `work/` with images, features and checkpoints.
        only: methods, if not all.
        data: data sets, if not all.
    """
    wanted = list(_wanted(table, size, seeds=seeds, only=only, data=data))
    cells = Cells(out / "cells")
    missing = [each for each in wanted if cells.find(table.which, each.choice, each.method, each.seed) is None]
    done = len(wanted) - len(missing)
    progress(f"{table.name}: cells", done, len(wanted))
    images: dict[str, Collected] = {}
    for each in missing:
        place = out / "work" / _name_of_images(table, each.choice)
        if each.choice.dataset not in images:
            images = {each.choice.dataset: collect(each.choice, table.which, place, root=root, progress=progress)}
        found = images[each.choice.dataset]
        bench = Workbench(found, each.choice, Run(each.seed, place / "stages", choose(device), progress=progress))
        cells.keep(table.which, each.choice, measure(bench, found, each.method, table))
        done += 1
        progress(f"{table.name}: cells", done, len(wanted))
    return saved(table, size, seeds=seeds, out=out, only=only, data=data)


def saved(
    table: Table,
    size: SizeName,
    *,
    seeds: Sequence[int],
    out: Path,
    only: Sequence[str] = (),
    data: Sequence[str] = (),
) -> list[Cell]:
    """The cells of the table that have been measured so far."""
    cells = Cells(out / "cells")
    wanted = _wanted(table, size, seeds=seeds, only=only, data=data)
    found = (cells.find(table.which, each.choice, each.method, each.seed) for each in wanted)
    return [cell for cell in found if cell is not None]


def measure(bench: Workbench, images: Collected, method: str, table: Table) -> Cell:
    """Let the method work, and only then open the door to the true labels: but for methods whose point they are."""
    started = time.process_time()
    if method in ("Before", "After"):
        scores = quality(bench, images, after=method == "After")
    elif method in LABELED:
        known = images.known()
        few = few_labels(known, bench.choice.semi.labels, seed=bench.run.seed)
        given = torch.arange(len(known)) if method == "supervised" else few
        labels = LABELED[method](bench, Labeled(given, torch.from_numpy(known)[given]))
        # Classes are told, so nothing is matched; NMI and ARI do not care what classes are called.
        truth = images.truth()
        found = score(labels, truth)
        scores = {"ACC": float((labels == truth).mean()), "NMI": found.nmi, "ARI": found.ari}
    else:
        found = score(METHODS[method].fit(bench), images.truth())
        scores = {"ACC": found.acc, "NMI": found.nmi, "ARI": found.ari}
    return Cell(
        data=bench.choice.dataset,
        method=method,
        seed=bench.run.seed,
        scores=scores,
        learned=len(bench.learn),
        asked=len(bench.scored),
        seconds=time.process_time() - started - bench.spent_here + sum(bench.charged.values()),
        notes=list(dict.fromkeys(bench.notes)),
        key=settings_key(table.which, bench.choice, method),
        at=now(),
        versions=versions(),
    )


def _wanted(
    table: Table, size: SizeName, *, seeds: Sequence[int], only: Sequence[str], data: Sequence[str]
) -> Iterator[Wanted]:
    """Seed by seed, so that a table that is stopped has all rows of some seeds and not some rows of all."""
    unknown = [name for name in only if name not in table.methods]
    if unknown:
        raise UserError(f"table {table.name} has no method {unknown[0]!r}: choose of {', '.join(table.methods)}")
    found = choices(table, size)
    strange = [name for name in data if name not in [choice.dataset for choice in found]]
    if strange:
        names = ", ".join(choice.dataset for choice in found)
        raise UserError(f"table {table.name} has no data set {strange[0]!r} at size {size}: choose of {names}")
    for choice in found:
        for seed in seeds:
            for method in table.methods:
                chosen = (not only or method in only) and (not data or choice.dataset in data)
                again = seed != seeds[0] and not _is_random(method, choice)
                if chosen and not again and method not in choice.left_out:
                    yield Wanted(choice, seed, method)


def _is_random(method: str, choice: Choice) -> bool:
    """Whether another seed may give another answer. Agglomerative clustering draws nothing; its features may."""
    same_features = choice.one_encoder or choice.encoder != SCRATCH
    return method != "agglomerative" and not (method == "features + agglomerative" and same_features)


def _name_of_images(table: Table, choice: Choice) -> str:
    parts = choice.dataset, table.which, choice.train or "all", choice.test or "all", choice.pixels
    return "-".join(map(str, parts))
