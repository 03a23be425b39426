"""docs/paper.md is complete, and names nothing that does not exist."""

import importlib
import re
from pathlib import Path

import spice.core

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")


def test_every_public_name_of_the_core_has_its_row() -> None:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    missing = [name for name in spice.core.__all__ if f"`spice.core.{name}`" not in rows]
    assert missing == []


def test_every_row_names_a_function_and_a_test() -> None:
    for row in (line for line in PAGE.splitlines() if line.startswith("|") and "`" in line):
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 4, row
        assert "`spice." in cells[1], row
        assert ".py::test_" in cells[2], row
        assert cells[3], row


def test_everything_the_page_names_exists() -> None:
    names = re.findall(r"`(spice(?:\.\w+)+)`", PAGE)
    assert len(names) >= len(spice.core.__all__)
    assert [name for name in names if not exists(name)] == []


def test_every_test_the_page_names_exists() -> None:
    cited = re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE)
    assert cited
    files = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    assert [test for file, test in cited if f"def {test}(" not in files.get(file, "")] == []


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    owner, _, last = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return hasattr(importlib.import_module(owner), last)
    return True
