"""How `--help` looks, and what a command says when Ctrl-C stops it."""

import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# Before 0.28, typer joins the lines of a paragraph; since then, it shows them as they are.
_LINE = "\n" if tuple(map(int, typer.__version__.split(".")[:2])) >= (0, 28) else "\n\n"


class Command(TyperCommand):
    """A command with plain help, which says that it stopped on Ctrl-C."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Name arguments as the table below does: no hidden ones, and no braces, which recent versions of typer add."""
        hidden = [piece for one in self.params if getattr(one, "hidden", False) for piece in one.get_usage_pieces(ctx)]
        pieces = [piece for piece in super().collect_usage_pieces(ctx) if piece not in hidden]
        return [piece.replace("{", "").replace("}", "") for piece in pieces]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show flags without a type."""
        _hide_types_of_flags(self, ctx)
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C ends it with one line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("\nspice: stopped", file=sys.stderr)
            raise typer.Exit(130) from None


class Group(TyperGroup):
    """A command with subcommands, with plain help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show flags without a type."""
        _hide_types_of_flags(self, ctx)
        super().format_help(ctx, formatter)


def examples(*lines: str) -> str:
    """An epilog: one example per line, with its `# remark` dimmed."""
    return _LINE.join(["[bold]Examples[/bold]", *(_example(line) for line in lines)])


def unwrapped(docstring: str | None) -> str:
    """A docstring with one line per paragraph, for the terminal to wrap."""
    paragraphs = (docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _example(line: str) -> str:
    # Square brackets are markup in help texts.
    command, _, remark = line.replace("[", "\\[").partition("  # ")
    return f"{command}  [dim]# {remark}[/dim]" if remark else command


def _hide_types_of_flags(command: TyperCommand | TyperGroup, context: Any) -> None:
    """Recent versions of typer show `<bool>` after a flag, as if it took a value."""
    for parameter in command.get_params(context):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
