"""The page of all tables in the docs, made from the saved json files: no number in it is typed by hand.

What words say about the numbers is kept apart, in `remarks.toml` beside the json files.
"""

import tomllib
from pathlib import Path

from spice.benchmark.tables.catalog import TABLES
from spice.benchmark.tables.render import markdown
from spice.benchmark.tables.result import Result
from spice.errors import UserError
from spice.files import written_atomically

REMARKS = "remarks.toml"
HEAD = """# The paper's tables, measured

<!-- Made by `spice bench page`; change the json files and remarks.toml in docs/tables, not this page. -->
"""


def page(folder: Path) -> str:
    """The page of the json files in `folder`; a table that was not run is named as such."""
    remarks = _remarks(folder / REMARKS)
    found = {name: folder / f"{name}.json" for name in TABLES if (folder / f"{name}.json").is_file()}
    if not found:
        raise UserError(f"{folder} holds no saved table: run one with `spice bench whole --out {folder}`")
    parts = [HEAD, remarks.get("introduction", "")]
    for name, path in found.items():
        parts += [markdown(Result.load(path)), remarks.get(name, "")]
    absent = [name for name in TABLES if name not in found]
    if absent:
        parts.append(f"Not run: {', '.join(absent)}.\n")
    return "\n".join(part.strip() + "\n" for part in parts if part.strip())


def write_page(folder: Path, path: Path) -> None:
    """Write the page, whole or not at all."""
    text = page(folder)
    with written_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _remarks(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not toml: {error}") from error
    unknown = [name for name in found if name not in ("introduction", *TABLES)]
    if unknown:
        raise UserError(f"{path} remarks on {unknown[0]!r}, which is no table")
    return found
