"""The command `spice`, one file per command. Torch is imported inside commands, so that `--help` is instant."""

import os
import sys
import warnings
from io import TextIOWrapper

import typer

from spice.cli import (
    alike,
    bench,
    check,
    cluster,
    datasets,
    demo,
    doctor,
    edit,
    evaluate,
    explore,
    export,
    figures,
    learn,
    memory,
    predict,
    refine,
    report,
    resume,
    runs,
    settings,
    verify,
    watch,
    why,
)
from spice.errors import UserError
from spice.files import refuse_undecodable
from spice.version import __version__

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Sort images into groups by what they show, without labels, and see how far to trust each group.",
)
app.command("cluster", epilog=cluster.EXAMPLES)(cluster.command)
app.command("resume", epilog=resume.EXAMPLES)(resume.command)
app.command("refine", epilog=refine.EXAMPLES)(refine.command)
app.command("predict", epilog=predict.EXAMPLES)(predict.command)
app.command("watch", epilog=watch.EXAMPLES)(watch.command)
app.command("evaluate", epilog=evaluate.EXAMPLES)(evaluate.command)
app.command("open", epilog=explore.EXAMPLES)(explore.command)
app.command("export", epilog=export.EXAMPLES)(export.command)
app.command("report", epilog=report.EXAMPLES)(report.command)
app.command("figures", epilog=figures.EXAMPLES)(figures.command)
app.command("why", epilog=why.EXAMPLES)(why.command)
app.command("check", epilog=check.EXAMPLES)(check.command)
app.command("outliers", epilog=alike.OUTLIERS_EXAMPLES)(alike.outliers)
app.command("duplicates", epilog=alike.DUPLICATES_EXAMPLES)(alike.duplicates)
app.command("groups", epilog=edit.GROUPS_EXAMPLES)(edit.show_groups)
app.command("name", epilog=edit.NAME_EXAMPLES)(edit.name)
app.command("merge", epilog=edit.MERGE_EXAMPLES)(edit.merge)
app.command("split", epilog=edit.SPLIT_EXAMPLES)(edit.split)
app.command("move", epilog=edit.MOVE_EXAMPLES)(edit.move)
app.command("set-aside", epilog=edit.ASIDE_EXAMPLES)(edit.set_aside)
app.command("learn", epilog=learn.EXAMPLES)(learn.command)
app.command("undo", epilog=edit.UNDO_EXAMPLES)(edit.undo)
app.command("redo", epilog=edit.REDO_EXAMPLES)(edit.redo)
app.command("runs", epilog=runs.EXAMPLES)(runs.command)
app.command("verify", epilog=verify.EXAMPLES)(verify.command)
app.command("settings", epilog=settings.EXAMPLES)(settings.command)
app.add_typer(datasets.app, name="datasets")
app.add_typer(bench.app, name="bench")
app.command("demo", epilog=demo.EXAMPLES)(demo.command)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"spice {__version__}")
        raise typer.Exit


@app.callback()
def spice(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Sort images into groups by what they show, without labels, and see how far to trust each group."""


def main() -> None:
    """Run the command. A user error is one line and an exit code, not a traceback."""
    warnings.formatwarning = _in_one_line
    _use_utf_8()
    try:
        refuse_undecodable(*sys.argv[1:])
        memory.refuse_small_limits()
        app()
    except UserError as error:
        print(f"spice: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # `spice ... | head`
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        explained = _in_words(error)
        if explained is None or os.environ.get("SPICE_DEBUG"):
            raise
        print(f"spice: {explained}", file=sys.stderr)
        sys.exit(UserError.exit_code)


def _in_words(error: Exception) -> str | None:
    """One line for an error of the operating system; None for what may be a bug."""
    from spice.runs.trouble import is_full

    if memory.is_out_of_memory(error):
        return memory.ADVICE
    if is_full(error):
        return "the disk is full; free some space, then run the same command again"
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        name = str(error.filename).encode("utf-8", "backslashreplace").decode()
        return f"{name if len(name) < 300 else name[:300] + '...'}: {error.strerror} (SPICE_DEBUG=1 shows where)"
    return None


def _use_utf_8() -> None:
    """Write UTF-8 to pipes; a terminal that cannot show a character shows its code."""
    if isinstance(sys.stdout, TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        else:
            sys.stdout.reconfigure(encoding="utf-8")


def _in_one_line(  # where in the code it was raised helps no user
    message: Warning | str,
    category: type[Warning],  # noqa: ARG001
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> str:
    return f"spice: warning: {message}\n"
