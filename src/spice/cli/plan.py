"""`spice cluster SOURCE --plan`: estimated time, memory and disk space of a run."""

import json
import shutil
from typing import TYPE_CHECKING

from spice.progress import duration
from spice.wording import gigabytes

if TYPE_CHECKING:
    from spice.pipeline.forecast import Forecast
    from spice.settings import RunSettings


def show_plan(source: str, settings: "RunSettings", *, as_json: bool) -> None:
    """Print the plan."""
    from spice.pipeline.forecast import forecast

    found = forecast(source, settings)
    if as_json:
        steps = [step._asdict() for step in found.steps]
        print(json.dumps({**found._asdict(), "steps": steps, "needs": found.needs._asdict()}, indent=2))
    else:
        print("\n".join(_lines(found)))


def _lines(found: "Forecast") -> list[str]:
    disk = found.needs.pixels + found.needs.views + found.needs.results
    return [
        f"images     {found.images:,} files, {gigabytes(found.bytes)}",
        *(f"{step.name:<22}{duration(step.seconds):>14}   {gigabytes(step.memory)} of memory" for step in found.steps),
        f"{'total':<22}{duration(found.seconds):>14}   {gigabytes(found.needs.memory)} of memory at most",
        f"disk       {gigabytes(disk)} ({gigabytes(shutil.disk_usage('.').free)} free here)",
        f"\nEstimated from {found.tried} images on this machine under its current load.",
        "Memory excludes mapped files, which the system can free. Nothing was written.",
    ]
