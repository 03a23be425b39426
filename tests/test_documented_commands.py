"""Every command that the documentation and `--help` show is one that the program accepts."""

import re
import shlex
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from spice.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAM: Any = typer.main.get_command(app)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """Lines that call the program, with what `torchrun -m` and the like put before it removed."""
    return re.findall(r"^(?:\$ |torchrun .*-m )?(spice [a-z].*)$", text.replace("\\\n", " "), re.MULTILINE)


def parse(line: str) -> None:
    """Read a command's arguments as the program would, and run nothing."""
    words = takewhile(lambda word: word not in ("|", ">", "&&"), shlex.split(line, comments=True))
    command, arguments = PROGRAM, list(words)[1:]
    while arguments and arguments[0] in getattr(command, "commands", {}):
        command = command.commands[arguments.pop(0)]
    assert not hasattr(command, "commands") or not arguments, f"there is no command {arguments[0]}"
    if not hasattr(command, "commands"):
        command.make_context("spice", arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_documented_command_is_accepted(page: Path) -> None:
    for line in (line for block in blocks(page, "(?:console|bash)?") for line in commands(block)):
        parse(line)


def test_every_example_of_the_help_is_accepted_and_fits_a_terminal() -> None:
    groups = [PROGRAM, *(command for command in PROGRAM.commands.values() if hasattr(command, "commands"))]
    shown = [command.epilog or "" for group in groups for command in group.commands.values()]
    lines = [re.sub(r"\[/?dim\]", "", line).replace("\\[", "[") for text in shown for line in commands(text)]
    assert len(lines) > 60
    assert [line for line in lines if len(line) > 78] == []  # 80 columns with a margin on each side
    for line in lines:
        parse(line)


def test_mistakes_would_be_noticed() -> None:
    with pytest.raises(Exception, match=r"--clusterz"):
        parse("spice cluster photos --clusterz 3")
    with pytest.raises(AssertionError, match="no command clusters"):
        parse("spice clusters photos")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_documented_piece_of_python_compiles(page: Path) -> None:
    for block in blocks(page, "python"):
        compile(block, page.name, "exec")
