"""`spice open`: browse and correct a run in the browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spice.cli import export
from spice.cli.help import examples
from spice.cli.options import Device, RunArgument

if TYPE_CHECKING:
    from spice.pipeline.image_search import ImageSearch
    from spice.progress import Progress
    from spice.web.tools import ExportBody, Proposal, Tools

EXAMPLES = examples(
    "spice open photos.spice",
    "spice open photos.spice --no-browser  # print the address",
    "spice open photos.spice --host 0.0.0.0 --port 8000  # also for other machines",
)


def command(
    run: RunArgument,
    *,
    host: Annotated[str, typer.Option(help="Address to serve on. By default, only this machine can connect.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port to serve on; 0 picks a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    device: Device = "auto",
) -> None:
    """Browse, name, merge, split and correct groups in the browser. Every edit can be undone."""
    import webbrowser

    from spice.runs import read_manifest
    from spice.runs.folder import refuse_links_outside
    from spice.web.app import make_app
    from spice.web.server import Server
    from spice.web.session import Session

    read_manifest(run)  # raises if this is not a run folder
    refuse_links_outside(run)
    if device != "auto":  # report a wrong device now; to resolve "auto" would import torch, which takes seconds
        from spice.engine.device import choose_device

        choose_device(device)
    session = Session(run)
    server = Server(make_app(session, _tools(run, device)), host=host, port=port)

    def ready() -> None:
        print(f"Serving {run} at {server.address}", flush=True)
        print("Edits are saved as you make them. Press Ctrl-C to stop.", flush=True)
        if browser:
            webbrowser.open(server.address)

    try:
        server.serve_until_stopped(ready)
    finally:
        session.close()
    print(f"\nspice: stopped serving {run}; your edits are saved")


def _tools(run: Path, device: str) -> "Tools":
    """The operations that need torch, which is imported on first use."""
    from functools import cache

    from spice.web.tools import Proposal, Tools

    @cache
    def search() -> "ImageSearch":
        from spice.pipeline.image_search import ImageSearch

        return ImageSearch(run)

    def learn(progress: "Progress") -> "Proposal":
        from spice.pipeline.learn import accept, propose

        found = propose(run, device=device, progress=progress)
        return Proposal(found.group, lambda: accept(found))

    def regroup(clusters: int, cut: bool, progress: "Progress") -> None:
        from spice.pipeline import regroup

        regroup(run, clusters, cut=cut, device=device, progress=progress)

    def refine(progress: "Progress") -> str:
        from spice.pipeline import refine

        return refine(run, use=False, device=device, progress=progress).result

    return Tools(
        nearest_to=lambda content, count: search().nearest(content, count),
        learn=learn,
        regroup=regroup,
        refine=refine,
        export=lambda wanted, destination: _export(run, wanted, destination),
    )


def _export(run: Path, wanted: "ExportBody", destination: Path) -> str:
    """Export like `spice export`, and return its message."""
    from spice.trust.check import KEEP

    group = None if wanted.group is None else str(wanted.group)
    rows = export.chosen_rows(run, group=group, keep=KEEP if wanted.kept else None)
    return export.export_images(run, destination, wanted.shape, rows=rows, copy=wanted.copied)
