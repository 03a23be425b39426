"""Whether names survive a new run on more images: groups are named, a fifth more images come, heads train anew.

python benchmarks/names_survive.py features.npz ...      # arrays `features` (N, D) and `truth`, of which K is taken
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from spice.pipeline import cluster
from spice.presets import preset
from spice.runs import open_result
from spice.runs.editor import Editor
from spice.runs.edits import Name

NEW = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--images", type=int, default=3000, help="at most so many")
    given = parser.parse_args()
    for file in given.files:
        with np.load(file) as data:
            order = np.random.default_rng(0).permutation(len(data["features"]))[: given.images]
            features, clusters = data["features"][order].astype(np.float32), len(np.unique(data["truth"]))
        measure(file.stem, features, clusters)


def measure(name: str, features: np.ndarray, clusters: int) -> None:
    old = int(len(features) / (1 + NEW))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        cluster(features[:old], preset("quick", clusters=clusters), run, page=False)
        editor = Editor(run)
        for group in editor.groups.existing:
            editor.do(Name(group=group, name=f"name {group}"))
        before = dict(zip(editor.base.hashes, editor.groups.columns()["name"], strict=True))
        cluster(features, preset("quick", clusters=clusters), run, page=False, redo=True)
        result = open_result(run)
        names, hashes = result.groups.columns()["name"], result.hashes
        kept = [before[one] == now for one, now in zip(hashes, names, strict=True) if one in before]
        fresh = [now for one, now in zip(hashes, names, strict=True) if one not in before]
        print(
            f"{name}: {np.mean(kept):.4f} of {len(kept):,} named images keep their name; "
            f"{np.mean([bool(now) for now in fresh]):.3f} of {len(fresh):,} new images get one"
        )


if __name__ == "__main__":
    main()
