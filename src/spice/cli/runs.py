"""`spice runs`: list the results in a run folder and choose the current one."""

import json
from datetime import datetime
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import Json, RunArgument
from spice.wording import quoted

if TYPE_CHECKING:
    from spice.runs import RunFolder

EXAMPLES = examples(
    "spice runs photos.spice",
    "spice runs photos.spice --use k6-1f0a3c  # switch to this result",
    "spice runs photos.spice --remove k7-99d2ab",
)

WIDTH = 95  # on a narrower terminal, each result takes two lines


def command(
    run: RunArgument,
    *,
    use: Annotated[
        str | None, typer.Option(metavar="NAME", help="Switch labels.csv, model/ and report.html to this result.")
    ] = None,
    remove: Annotated[
        str | None, typer.Option(metavar="NAME", help="Delete this result and the files that only it needs.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List, switch or remove the results in a run folder. Every result is kept until you remove it."""
    from spice.runs import RunFolder, locked, save_edited_groups, update_csv, writing

    if use is not None or remove is not None:
        RunFolder.open(run)  # raises if this is not a run folder, before it is locked
        with writing(run), locked(run):
            folder = RunFolder.open(run)
            if use is not None:
                folder.use(use)
                update_csv(run)
            if remove is not None:
                save_edited_groups(run, folder.manifest, remove)
                folder.remove(remove)
    _show(RunFolder.open(run), as_json=as_json)


def _show(folder: "RunFolder", *, as_json: bool) -> None:
    from spice.runs import Result

    manifest = folder.manifest
    rows = []
    for name, entry in manifest.results.items():
        result = Result(folder.path, manifest, name)
        rows.append(
            {
                "current": name == manifest.current,
                "name": name,
                "clusters": result.answer.clusters,
                "reliable": float(result.labels.reliable.mean()),
                "refined": result.refinement,
                "encoder": result.views.encoder,
                "seed": entry.settings.get("seed"),
                "created": entry.created,
            }
        )
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    if not rows:
        print(f"no finished result yet; resume with: spice resume {quoted(folder.path)}")
        return
    narrow = get_terminal_size(fallback=(WIDTH, 24)).columns < WIDTH
    line_break = "\n    " if narrow else ""
    heading = f"{'created':<18}{'refined':<10}encoder"
    print(f"  {'name':<22}{'groups':>9}{'reliable':>10}{'seed':>6}  {line_break}{heading}")
    for row in rows:
        mark = "*" if row["current"] else " "
        created = datetime.fromisoformat(str(row["created"])).astimezone()
        print(
            f"{mark} {row['name']:<22}{row['clusters']:>9}{row['reliable']:>10.0%}{row['seed']:>6}  {line_break}"
            f"{created:%Y-%m-%d %H:%M}  {row['refined']:<10}{str(row['encoder'])[:15]}"
        )
