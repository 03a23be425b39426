"""`spice report`: rewrite the report of a run."""

from spice.cli.help import examples
from spice.cli.running import RunArgument

EXAMPLES = examples("spice report photos.spice  # then open photos.spice/report.html")


def command(run: RunArgument) -> None:
    """Rewrite report.html for the current result. Every run writes it automatically."""
    from spice.report import write_report
    from spice.runs import RunFolder, explain_write_errors, open_result
    from spice.runs.folder import refuse_links_outside

    with explain_write_errors(run):
        result = open_result(run)
        refuse_links_outside(run)
        path = write_report(result)
        RunFolder.open(run).link()
    print(path)
