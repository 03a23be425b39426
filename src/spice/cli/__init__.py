"""The command `spice`, one file per command. Torch is imported inside commands, so that `--help` is instant."""

import os
import sys
import warnings
from collections.abc import Callable
from io import TextIOWrapper

import typer

from spice.cli import (
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
    image_flags,
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
from spice.cli.help import Command, Group, unwrapped
from spice.errors import UserError
from spice.files import refuse_undecodable
from spice.version import __version__

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    cls=Group,
)
# By panel of `spice --help`: the name of each command, its function, and its examples.
PANELS: dict[str, list[tuple[str, Callable[..., None], str]]] = {
    "Group images": [
        ("cluster", cluster.command, cluster.EXAMPLES),
        ("open", explore.command, explore.EXAMPLES),
        ("check", check.command, check.EXAMPLES),
        ("export", export.command, export.EXAMPLES),
        ("resume", resume.command, resume.EXAMPLES),
        ("demo", demo.command, demo.EXAMPLES),
    ],
    "Look at the groups": [
        ("groups", edit.show_groups, edit.GROUPS_EXAMPLES),
        ("why", why.command, why.EXAMPLES),
        ("outliers", image_flags.outliers, image_flags.OUTLIERS_EXAMPLES),
        ("duplicates", image_flags.duplicates, image_flags.DUPLICATES_EXAMPLES),
        ("report", report.command, report.EXAMPLES),
        ("runs", runs.command, runs.EXAMPLES),
    ],
    "Correct the groups": [
        ("name", edit.name, edit.NAME_EXAMPLES),
        ("merge", edit.merge, edit.MERGE_EXAMPLES),
        ("split", edit.split, edit.SPLIT_EXAMPLES),
        ("move", edit.move, edit.MOVE_EXAMPLES),
        ("set-aside", edit.set_aside, edit.ASIDE_EXAMPLES),
        ("undo", edit.undo, edit.UNDO_EXAMPLES),
        ("redo", edit.redo, edit.REDO_EXAMPLES),
        ("learn", learn.command, learn.EXAMPLES),
        ("refine", refine.command, refine.EXAMPLES),
    ],
    "Sort new images": [
        ("predict", predict.command, predict.EXAMPLES),
        ("watch", watch.command, watch.EXAMPLES),
    ],
    "Installation and settings": [
        ("doctor", doctor.command, doctor.EXAMPLES),
        ("settings", settings.command, settings.EXAMPLES),
        ("verify", verify.command, verify.EXAMPLES),
    ],
    "Research": [
        ("evaluate", evaluate.command, evaluate.EXAMPLES),
        ("figures", figures.command, figures.EXAMPLES),
    ],
}
for _panel, _commands in PANELS.items():
    for _name, _command, _examples in _commands:
        _help = unwrapped(_command.__doc__)
        app.command(_name, cls=Command, help=_help, epilog=_examples, rich_help_panel=_panel)(_command)
app.add_typer(datasets.app, name="datasets", rich_help_panel="Research")
app.add_typer(bench.app, name="bench", rich_help_panel="Research")


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
    warnings.formatwarning = _format_warning
    _use_utf_8()
    try:
        refuse_undecodable(*sys.argv[1:])
        memory.prepare()
        app()
    except UserError as error:
        print(f"spice: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # `spice ... | head`
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        explained = _explanation(error)
        if explained is None or os.environ.get("SPICE_DEBUG"):
            raise
        print(f"spice: {explained}", file=sys.stderr)
        sys.exit(UserError.exit_code)


def _explanation(error: Exception) -> str | None:
    """One line for an error of the operating system; None for what may be a bug."""
    from spice.runs.write_errors import is_full

    if memory.is_out_of_memory(error):
        return memory.ADVICE
    if is_full(error):
        return "the disk is full; free some space, then run the same command again"
    if isinstance(error, FileNotFoundError) and "temporary directory" in str(error):  # from Python's tempfile
        return "there is no room for temporary files; free some space, or set TMPDIR to a folder on another disk"
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


def _format_warning(message: Warning | str, *_: object, **__: object) -> str:
    """Format a warning without its place in the code, which does not help users."""
    return f"spice: warning: {message}\n"
