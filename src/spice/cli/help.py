"""The examples under every `--help`."""


def examples(*lines: str) -> str:
    """An epilog: one example a line, `# remark` in gray."""
    return "\n\n".join(["[bold]Examples[/bold]", *(_line(line) for line in lines)])


def _line(line: str) -> str:
    # Square brackets are markup in help texts.
    command, _, remark = line.replace("[", "\\[").partition("  # ")
    return f"{command}   [dim]{remark}[/dim]" if remark else command
