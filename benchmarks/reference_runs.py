"""Hashes of the labels of three reference runs: a refactoring must leave them as they are.

    python benchmarks/reference_runs.py ../shared/data

Two collections with `lite0` (1,500 photos of Imagenette, Fruits), and scikit-learn's digits through all three stages.
The hashes depend on the machine and on the versions of torch and ONNX Runtime: compare two revisions on one machine.
"""

import argparse
import hashlib
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from spice.cli.demo import write_digits
from spice.pipeline import cluster
from spice.presets import demo, standard
from spice.settings import RunSettings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with imagenette.tar and fruits.tar")
    chosen = parser.parse_args()
    with TemporaryDirectory(prefix="spice-") as folder:
        for name, (source, settings) in _runs(chosen.data, Path(folder)).items():
            out = Path(folder) / f"{name}.spice"
            cluster(str(source), settings, out)
            print(f"{name:<12}{hashlib.sha256((out / 'labels.csv').read_bytes()).hexdigest()}", flush=True)


def _runs(data: Path, folder: Path) -> dict[str, tuple[Path, RunSettings]]:
    imagenette, digits = folder / "imagenette", folder / "digits"
    _extract_photos(data / "imagenette.tar", imagenette, per_class=150)
    write_digits(digits)
    return {
        "imagenette": (imagenette, standard(clusters=10)),
        "fruits": (data / "fruits.tar", standard(clusters=15)),
        "digits": (digits, demo()),
    }


def _extract_photos(archive: Path, folder: Path, *, per_class: int) -> None:
    """The first photos of every class of the validation part, by name."""
    taken: dict[str, int] = {}
    with tarfile.open(archive) as opened:
        members = sorted((member for member in opened if member.isfile()), key=lambda member: member.name)
        for member in members:
            _, part, label, name = member.name.split("/")
            if part == "val" and taken.setdefault(label, 0) < per_class:
                taken[label] += 1
                path = folder / label / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(opened.extractfile(member).read())  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
