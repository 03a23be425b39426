"""Do verdicts match the purity of groups? Mean purity by grade, and rank correlation of purity with each measure.

    python benchmarks/verdicts.py RUN=TRUTH [RUN=TRUTH ...]

RUN and TRUTH are as in benchmarks/check_simulation.py. True labels are used only for the table.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from check_simulation import classes_of
from spice.report.content import read_content
from spice.runs import open_result

FEWEST_IMAGES = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN=TRUTH")
    measures = ("groups", "chance", "share", "heads", "margin")
    print(
        f"{'run':<16}{'clusters':>9}   purity (clusters) of good, mixed, weak{'':<4}"
        + "".join(f"{m:>9}" for m in measures)
    )
    rows: list[tuple[float, str, list[float]]] = []
    for pair in parser.parse_args().runs:
        found = _purities(pair, measures)
        _show(Path(pair.rsplit("=", maxsplit=1)[0]).stem, found, len(measures))
        rows += found
    _show("all", rows, len(measures))


def _purities(pair: str, measures: tuple[str, ...]) -> list[tuple[float, str, list[float]]]:
    """Purity, grade and measures of every cluster of a run."""
    run, truth = pair.rsplit("=", maxsplit=1)
    result = open_result(Path(run))
    labels, found = result.labels, []
    classes = classes_of(labels, truth)
    for number, verdict in enumerate(read_content(result).verdicts):
        members = classes[labels.cluster == number]
        if len(members) >= FEWEST_IMAGES:
            values = [getattr(verdict, name) for name in measures]
            found.append((np.bincount(members).max() / len(members), str(verdict.grade), [_number(v) for v in values]))
    return found


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _show(name: str, found: list[tuple[float, str, list[float]]], measures: int) -> None:
    purity = np.array([row[0] for row in found])
    grades = []
    for grade in ("good", "mixed", "weak"):
        of_grade = purity[[row[1] == grade for row in found]]
        grades.append(f"{of_grade.mean():.2f} ({len(of_grade)})" if len(of_grade) else "-")
    ranks = [spearmanr(purity, [row[2][column] for row in found]).statistic for column in range(measures)]
    print(
        f"{name:<16}{len(found):>9}   {grades[0]:>12}{grades[1]:>12}{grades[2]:>12}     "
        + "".join(f"{r:>9.2f}" for r in ranks)
    )


if __name__ == "__main__":
    main()
