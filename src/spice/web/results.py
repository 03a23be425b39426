"""The results that a run keeps, such as other numbers of groups, and switching between them."""

from pathlib import Path

import numpy as np
from pydantic import JsonValue

from spice.arrays import open_array
from spice.runs import Result, RunFolder, locked, read_manifest, writing
from spice.runs.artifacts import CANDIDATES
from spice.runs.other_group_counts import compare
from spice.web.session import State
from spice.wording import quoted

PICTURES_SHOWN = 24


def describe_results(state: State) -> dict[str, JsonValue]:
    """Every result of the run, fewest groups first, and other numbers of groups to try."""
    current = state.opened.result
    manifest = read_manifest(current.run)  # read again: a command in the terminal may have added a result
    results = [Result(current.run, manifest, name) for name in manifest.results]
    results.sort(key=lambda result: (result.answer.clusters, result.entry.created))
    images = quoted(manifest.source) if manifest.source else "IMAGES"
    source = current.with_step("howmany")
    return {
        "results": [_describe(result, current) for result in results],
        "plausible": _plausible(current, source, {result.answer.clusters for result in results}),
        "numbers": [one.clusters for one in source.howmany.candidates] if source and source.howmany else [],
        "command": f"spice cluster {images} -k NUMBER --out {quoted(current.run)}",
    }


def _plausible(current: Result, source: Result | None, tried: set[int]) -> list[JsonValue]:
    """The plausible numbers of groups that were not tried yet, and what they would change.

    `source`: the result for which spice searched for the number of groups.
    """
    if source is None or source.howmany is None:
        return []
    counted, labels = source.howmany, current.labels
    partitions = open_array(source.need(CANDIDATES))
    found: list[JsonValue] = []
    for candidate, partition in zip(counted.candidates, partitions, strict=True):
        if candidate.clusters in tried:
            continue
        change = compare(candidate.clusters, labels.cluster, np.asarray(partition))
        # The example of each new group: its image that is nearest to the center of its current group.
        order = np.lexsort((labels.prototype_rank, partition))
        centers = order[np.unique(partition[order], return_index=True)[1]]
        found.append(
            {
                "groups": candidate.clusters,
                "joins": [[*joined] for joined in change.joins],
                "splits": [*change.splits],
                "centers": centers[:PICTURES_SHOWN].tolist(),
            }
        )
    return found


def use_result(run: Path, name: str) -> None:
    """Make another result the current one."""
    with writing(run), locked(run):
        RunFolder.open(run).use(name)


def _describe(result: Result, current: Result) -> dict[str, JsonValue]:
    labels = (current if result.name == current.name else result).labels
    # Pictures are looked up by row, so only results of the same images have them.
    same = result.scan.identity == current.scan.identity
    centers = np.flatnonzero(labels.prototype_rank == 0) if same else np.empty(0, dtype=np.int64)
    sizes = np.bincount(labels.cluster, minlength=result.answer.clusters)
    centers = centers[np.argsort(-sizes[labels.cluster[centers]], kind="stable")]
    return {
        "name": result.name,
        "current": result.name == current.name,
        "groups": result.answer.clusters,
        "reliable": float(labels.reliable.mean()),
        "chance": float(labels.chance.mean()),
        "cut": _from_cut(result),
        "refined": result.refinement,
        "encoder": result.views.encoder,
        "created": result.entry.created,
        "centers": centers[:PICTURES_SHOWN].tolist(),
    }


def _from_cut(result: Result) -> bool:
    """Whether the heads started from a cut of the merge tree."""
    heads = result.entry.settings.get("heads")
    return isinstance(heads, dict) and heads.get("start") == "cut"
