"""Whether the documentation can be read at a glance: short lines, short paragraphs, plain words.

    python scripts/check_prose.py

Checks README, CONTRIBUTING, SECURITY and docs/ (lab notes and generated tables are exempt), and the messages and
docstrings of src/ for wordings that this project has replaced. Prints one line per finding; exits with 1 if there is
any.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST_LINE, LONGEST_PARAGRAPH, MOST_CHARACTERS = 200, 5, 500  # five lines of the site hold about 500 characters
GENERATED = ("docs/tables.md",)

# Wordings that had to be read twice, and what to write instead.
BANNED = {
    r"\b(is|was|are|were) (not )?believed\b": "is kept / was rejected",
    r"\bspeaks? against\b": "fails a check / disagrees",
    r"\bgo(es)? on where (it|they)\b": "resumes",
    r"\bgone on with\b": "resumed",
    r"\b(is|are|was) no clustering\b": "need at least 2 clusters",
    r"\brefused in words\b": "refused with a message",
    r"\bwhat was thought of\b": "the predicted labels",
    r"\bwins? over (it|the preset)\b": "overrides",
    r"\b(under_way|abreast|told_in_words)\b": "a conventional name",
    r"\bwhat looks at\b": "encoder",
    r"\bexists already\b": "already exists",
    r"\bmake (it|them) again with\b": "recreate it with",
    r"\bgive another (name|folder|one)\b": "choose another",
    r"\b(was|were) not asked for\b": "name the missing option",
    r"\btake (it|one|them) back with\b": "undo with",
    r"\b(is|are|was) taken back\b|\btake back the (last )?(edit|answer)": "undo",
    r"\b(is|are|be|was) made again\b": "is recreated",
    r"\bsay how many with\b": "set the number with",
    r"\bspeaks? for\b": "supports / shows",
    r"\b(a note was taken|they stand in|stands in the (file|table|page))\b": "see the file for notes",
    r"\b(is|are) taken for\b": "is treated as / counts as",
    r"\bis no (number|table|npz|clustering|reason)\b": "is not a",
    r"\b(made|fake) (pictures|images)\b": "synthetic images",
    r"\b(training|a run) is under way\b": "in progress",
    r"\bwhole or not at all\b": "atomically",
    r"\btakes? (its|their) time at\b": "is slow to import",
    r"\bas good as not\b": "counts as un...",
    r"\b(that|which) is no (run|group|copy)\b": "that is not a",
    r"\bfrom (which|where) on\b": "at least / above",
    r"\bat most so many\b|\bat least so many\b": "name the number",
    r"\bwhat is looked at\b|\bto be named\b|\bsaid exactly\b|\bAsk first:": "rewrite the sentence",
    r"\bto the last bit\b": "bit for bit",
    r"\bfrom [\d,]+ (images|groups|pixels|px) on\b": "above N images",
    r"\blist by list\b": "approximately / within lists of similar images",
    r"(?-i:\bOf an?) [\w` .]+, (the|only|row)\b": "start with the subject: only the first frame of ... is used",
    r"\b(the )?most (that|which) (was|were)\b": "the largest",
    r"\bundisturbed\b": "uninterrupted",
    r"\b(it|this) pays for an?\b": "it is worth it for",
    r"\bhappens? by itself\b": "is automatic",
    r"\bthe number of groups was given\b": "you set the number of groups",
    r"^Cells: ": "Each cell is ...",
    r"\*\*Behind by\b|\b(is|are) ahead on\b": "X is better on ...",
    r"\bis off where\b|\b(right|wrong) where groups\b": "if",
    r"\b(takes|needs) a promise\b|\bA promise of \d": "say what is kept, and how accurate it is",
}


def main() -> int:
    """Print every finding; the exit code is 1 if there is one."""
    top = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
    pages = [*top, *sorted((ROOT / "docs").glob("*.md"))]
    found = [finding for page in pages if _name(page) not in GENERATED for finding in _shape(page)]
    kinds = ("*.py", "*.html", "*.js")
    sources = [*pages, *(path for kind in kinds for path in sorted((ROOT / "src").rglob(kind)))]
    found += [finding for path in sources for finding in _wording(path)]
    print("\n".join(found) or "prose: nothing to mend")
    return 1 if found else 0


def _shape(page: Path) -> Iterator[str]:
    """Prose lines that are too long, and paragraphs with too many lines. Code, tables and pictures are exempt."""
    length, characters, code = 0, 0, False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        code ^= line.startswith("```")
        prose = not code and not line.startswith(("```", "|", "    ", "[![", "!["))
        begins = line.lstrip().startswith(("#", "- ", "* ", "> ")) or re.match(r"\s*\d+\. ", line) is not None
        length = 0 if not prose or not line.strip() else 1 if begins else length + 1
        shown = len(re.sub(r"\]\([^)]*\)", "", line.strip()))  # without the targets of links
        characters = 0 if length == 0 else shown if length == 1 else characters + shown
        if prose and len(line) > LONGEST_LINE:
            yield f"{_name(page)}:{number}: {len(line)} characters; break the line, better the sentence"
        if length == LONGEST_PARAGRAPH + 1:
            yield f"{_name(page)}:{number}: a paragraph of more than {LONGEST_PARAGRAPH} lines; split it"
        if characters > MOST_CHARACTERS >= characters - shown:
            yield f"{_name(page)}:{number}: a paragraph of more than {MOST_CHARACTERS} characters; split it"


def _wording(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        for pattern, instead in BANNED.items():
            match = re.search(pattern, line, re.IGNORECASE)
            if match:
                yield f"{_name(path)}:{number}: {match.group()!r}; write: {instead}"


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


if __name__ == "__main__":
    sys.exit(main())
