"""The texts of `--help`."""

import typer
from typer.core import TyperCommand

# Before 0.28, typer joins the lines of a paragraph; since then, it shows them as they are.
_LINE = "\n" if tuple(map(int, typer.__version__.split(".")[:2])) >= (0, 28) else "\n\n"


class Command(TyperCommand):
    """A command whose usage line names its arguments as the table below it does: `RUN`, not `{RUN}`."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Without hidden arguments, and without the braces that recent versions of typer put around required ones."""
        hidden = [piece for one in self.params if getattr(one, "hidden", False) for piece in one.get_usage_pieces(ctx)]
        pieces = [piece for piece in super().collect_usage_pieces(ctx) if piece not in hidden]
        return [piece.replace("{", "").replace("}", "") for piece in pieces]


def examples(*lines: str) -> str:
    """An epilog: one example a line, `# remark` in gray."""
    return _LINE.join(["[bold]Examples[/bold]", *(_line(line) for line in lines)])


def unwrapped(docstring: str | None) -> str:
    """A docstring with one line per paragraph, for the terminal to wrap."""
    paragraphs = (docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _line(line: str) -> str:
    # Square brackets are markup in help texts.
    command, _, remark = line.replace("[", "\\[").partition("  # ")
    return f"{command}   [dim]{remark}[/dim]" if remark else command
