"""A run's warnings as the page shows them: what, in which words, and what to try."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from spice.runs.records import StepWarning


class Notice(NamedTuple):
    """One warning."""

    name: str  # `EmptyClusterWarning` as "Empty cluster"
    text: str
    advice: str  # what to try; empty where the warning says nothing of it


def notices(warned: Iterable[StepWarning]) -> list[Notice]:
    """In the order of the steps that gave them."""
    return [_notice(one) for one in warned]


def _notice(warned: StepWarning) -> Notice:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", warned.name.removesuffix("Warning")).lower()
    # Warnings end with their advice: "...: try fewer clusters", "...; try another encoder".
    text, *advice = re.split(r"[:;] (?=try )", warned.text, maxsplit=1)
    return Notice(words.capitalize(), _sentence(text), _sentence("".join(advice)))


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}." if words else ""
