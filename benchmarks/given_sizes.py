"""The gain from knowing the sizes of groups, on 10:1 samples: sizes found, given, and given wrongly.

    OMP_NUM_THREADS=1 python benchmarks/given_sizes.py imagenette.npz fruits.npz [--seeds 0 1 2] [--images 3000]

The files contain `features` (N, D) and `truth` (N,). True labels are used to sample, to give sizes, and to score.
"""

import argparse
import json
import warnings
from collections import Counter

import numpy as np

from spice import SPICE
from spice.benchmark.howmany.run import draw
from spice.errors import SpiceWarning
from spice.evaluate import score


def rules(truth: np.ndarray, seed: int) -> dict[str, list[float] | None]:
    """Sizes as a user may give them: none, exact ones, ones off by up to a third, or all the same."""
    exact = [float(count) for count in Counter(truth.tolist()).values()]
    guess = np.random.default_rng(seed).uniform(2 / 3, 3 / 2, len(exact)) * exact
    return {
        "found": None,
        "given": exact,
        "given, each off by up to a third": [round(value) for value in guess],
        "given as even": [1.0] * len(exact),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--preset", default="standard")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", SpiceWarning)
    for source in chosen.sources:
        for seed in chosen.seeds:
            drawn = draw(source, uneven=True, images=chosen.images, seed=seed)
            for rule, sizes in rules(drawn.truth, seed).items():
                clusters = len(set(drawn.truth.tolist()))
                model = SPICE(clusters, sizes=sizes, preset=chosen.preset, random_state=seed)
                found = model.fit_predict(np.asarray(drawn.features))
                reached = score(found, drawn.truth)
                largest = np.sort(np.bincount(found, minlength=clusters))[::-1] / len(found)
                line = {"source": source, "seed": seed, "rule": rule, "images": len(found), "clusters": clusters}
                line |= {name: round(getattr(reached, name), 4) for name in ("acc", "balanced_acc", "nmi", "ari")}
                line |= {"largest": round(float(largest[0]), 3), "smallest": round(float(largest[-1]), 4)}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
