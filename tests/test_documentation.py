"""Links of the pages that lie outside docs/: the site's own are checked when it is built."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def anchors(page: Path) -> set[str]:
    """As GitHub and mkdocs make them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    for link in links(ROOT / name):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = ROOT / path if path else ROOT / name
        assert target.exists(), f"{name} links to {path}, which is not there"
        assert not anchor or anchor in anchors(target), f"{name} links to {link}, which has no such heading"


def test_every_page_is_in_the_sites_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert pages == set(re.findall(r"[\w./-]+\.md", contents))


def test_every_public_name_is_in_the_reference() -> None:
    import spice

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^::: spice\.(\w+)$", page, re.MULTILINE))
    assert documented >= set(spice.__all__) - {"__version__"}


def test_every_warning_is_in_the_table_of_warnings() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    source = ROOT / "src"
    for path in source.rglob("*.py"):
        module = ".".join(path.relative_to(source).with_suffix("").parts)
        for name in re.findall(
            r"^class (\w+)\((?:Spice|Notice)Warning\)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert f"| `{module}.{name}` |" in page


def test_every_message_that_troubleshooting_explains_is_one_that_the_program_prints() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    cells = re.findall(r"^\| ([^|]*`[^|]*) \|", page, re.MULTILINE)
    messages = [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]
    messages.remove("spice: command not found")  # the shell prints this one
    assert len(messages) > 18
    for message in messages:
        fixed = max(re.split(r"\.\.\.|'\w+'|\d+%?", message), key=len).strip(" :")
        assert fixed in source, f"nothing prints {message!r}"
