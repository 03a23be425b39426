"""Wording that commands share: examples under every `--help`, and counts."""


def examples(*lines: str) -> str:
    """An epilog: one example a line, `# remark` in gray."""
    return "\n\n".join(["[bold]Examples[/bold]", *(_line(line) for line in lines)])


def counted(count: int, noun: str) -> str:
    """`1 image`, `1,204 images`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _line(line: str) -> str:
    # Square brackets are markup in help texts.
    command, _, remark = line.replace("[", "\\[").partition("  # ")
    return f"{command}   [dim]{remark}[/dim]" if remark else command
