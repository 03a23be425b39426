"""Damage to files, as a bad disk or a stopped copy leaves it."""

from pathlib import Path


def flip_a_bit(path: Path, *, at: float = 0.5) -> None:
    """At this share of the file: by default in the middle, where neither size nor header changes."""
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= 0x10
    path.write_bytes(content)


def cut(path: Path) -> None:
    """Keep the first half."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
