"""How much disk space spice and everything it needs take in this environment.

    .venv/bin/python scripts/installed_size.py

Prints one line per package, largest first. Extras are not counted.
"""

import re
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement

SHOWN = 12


def main() -> None:
    """Print the largest packages and the total."""
    sizes: dict[str, int] = {}
    _add("spice-cluster", sizes)
    ranked = sorted(sizes.items(), key=lambda item: -item[1])
    for name, size in ranked[:SHOWN]:
        print(f"{name:<36}{size / 1e6:>7,.0f} MB")
    rest = sum(size for _, size in ranked[SHOWN:])
    print(f"{f'{len(ranked) - SHOWN} others':<36}{rest / 1e6:>7,.0f} MB")
    print(f"{'total':<36}{sum(sizes.values()) / 1e6:>7,.0f} MB")


def _add(name: str, sizes: dict[str, int]) -> None:
    """Add a package and, once each, everything it requires."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    try:
        found = None if name in sizes else distribution(name)
    except PackageNotFoundError:  # required on other platforms only
        found = None
    if found is None:
        return
    files = (found.locate_file(file) for file in found.files or [])
    sizes[name] = sum(path.stat().st_size for path in files if path.exists())  # type: ignore[attr-defined]
    for requirement in map(Requirement, found.requires or []):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            _add(requirement.name, sizes)


if __name__ == "__main__":
    main()
