"""`spice resume`: continue a run that was stopped."""

from spice.cli.help import examples
from spice.cli.options import Details, Device, Json, Open, Rescan, RunArgument
from spice.cli.running import interruptible
from spice.cli.summary import finish

EXAMPLES = examples("spice resume photos.spice", "spice resume photos.spice --json  # print the summary as JSON")


def command(
    run: RunArgument,
    *,
    rescan: Rescan = False,
    device: Device = "auto",
    details: Details = False,
    open_page: Open = None,
    as_json: Json = False,
) -> None:
    """Resume a run that was stopped, or print the summary of a finished one."""
    from spice.pipeline import resume

    with interruptible(run) as progress:
        summary = resume(run, rescan=rescan, device=device, progress=progress)
    finish(summary, as_json=as_json, details=details, open_page=open_page)
