"""The report."""

from spice.engine.run import Run
from spice.pipeline.work import Work
from spice.report import write_report
from spice.runs.records import StepResult


def report(work: Work, run: Run) -> StepResult:  # noqa: ARG001
    """Write `report.html`."""
    write_report(work.result.reread())
    return StepResult()
