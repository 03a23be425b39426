"""`spice evaluate`: how good the groups are, where true labels exist. The only command that reads a label."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pydantic import JsonValue

    from spice.evaluate import Truth

EXAMPLES = examples(
    "spice evaluate photos.spice --truth folders  # the class is the folder that an image lies in",
    "spice evaluate photos.spice --truth labels.csv  # columns path,label",
)


def command(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    *,
    truth: Annotated[str, typer.Option(help="`folders`, or a csv file with the columns path and label.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Compare the groups with true labels: ACC, NMI, ARI; k-means beside them. Of the run, only its page changes."""
    from spice.evaluate import from_csv, from_folders
    from spice.files import written_atomically
    from spice.report import write_report
    from spice.runs import read_labels
    from spice.runs.artifacts import SCORES

    paths = read_labels(run).path
    found = _scores(run, from_folders(paths) if truth == "folders" else from_csv(Path(truth), paths))
    text = json.dumps(found, indent=2)
    with written_atomically(run / SCORES.name) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    write_report(run)
    print(text if as_json else _table(found))


def _scores(run: Path, truth: "Truth") -> "dict[str, JsonValue]":
    import numpy as np

    from spice.evaluate import confusion
    from spice.runs import read_labels
    from spice.runs.artifacts import KMEANS
    from spice.runs.folder import needed

    labels = read_labels(run)
    cluster, reliable = labels.cluster[truth.positions], labels.reliable[truth.positions]
    kmeans = np.load(needed(run, KMEANS))[truth.positions]
    table = confusion(cluster, truth.labels)
    return {
        "images": len(truth.positions),
        "without_label": len(labels.path) - len(truth.positions),
        "classes": list(truth.classes),
        "spice": _score(cluster, truth.labels),
        "kmeans": _score(kmeans, truth.labels),
        "reliable": {"images": int(reliable.sum()), **_score(cluster[reliable], truth.labels[reliable])},
        "confusion": {"clusters": table.clusters.tolist(), "counts": table.counts.tolist()},
    }


def _score(clusters: "NDArray[np.int32]", truth: "NDArray[np.int64]") -> "dict[str, JsonValue]":
    from spice.evaluate import score

    if len(truth) == 0:
        return {}
    return {name: round(value, 4) for name, value in score(clusters, truth)._asdict().items()}


def _table(found: "dict[str, JsonValue]") -> str:
    lines = [f"{'':<22}{'images':>8}{'ACC':>8}{'NMI':>8}{'ARI':>8}"]
    for name, title in (("spice", "all images"), ("reliable", "reliable images"), ("kmeans", "k-means, all images")):
        scores = found[name]
        assert isinstance(scores, dict)
        figures = "".join(f"{scores[key]:8.3f}" if key in scores else f"{'-':>8}" for key in ("acc", "nmi", "ari"))
        lines.append(f"{title:<22}{scores.get('images', found['images']):>8,}{figures}")
    if found["without_label"]:
        lines.append(f"{found['without_label']:,} images have no true label and are left out")
    return "\n".join(lines)
