"""`spice report`: rewrite the report of a run."""

from spice.cli.help import examples
from spice.cli.options import RunArgument

EXAMPLES = examples("spice report photos.spice  # then open photos.spice/report.html")


def command(run: RunArgument) -> None:
    """Rewrite report.html for the current result. Every run writes it automatically."""
    from spice.report import rewrite_report
    from spice.runs import open_result, writing

    result = open_result(run)
    with writing(run):
        rewrite_report(result)
    print(f"report     {(run / 'report.html').absolute().as_uri()}")
