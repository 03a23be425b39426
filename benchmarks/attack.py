"""Attacks spice with damaged runs, hostile files, odd names, full disks, kills and unwritable places.

python benchmarks/attack.py --minutes 30          # all kinds; a random part of the largest
python benchmarks/attack.py --minutes 5 --only "full disk, a limit on files" --only "rubbish arguments"
python benchmarks/attack.py --only "kills, refinement" --keep docs/attacks.json  # one kind; the table shows all kept
python benchmarks/attack.py --quick               # a random part of all, in less than a minute

Prints a table. No attempt may end in a traceback or a hang, write outside the given folder, or change labels without a
message, and stopped commands must be resumable. Otherwise the exit code is 1. Kinds that need root (to mount disks) are
left out for other users.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from attacks.damage import corrupted_images, corrupted_sources, damaged_files, hostile_content, links
from attacks.ground import BAD, FINE, Attempt, Ground, prepare, shuffled
from attacks.places import (
    full_disk,
    full_real_disk,
    little_memory,
    names,
    rubbish,
    sources,
    two_processes,
    unwritable,
)
from attacks.processes import processes
from kill_and_resume import kill_runs

KINDS: dict[str, Callable[[Ground], Iterator[Attempt]]] = {
    "corrupted archives, arrays and lists": corrupted_sources,
    "damaged files": damaged_files,
    "hostile content": hostile_content,
    "links out of the folder": links,
    "hostile names": names,
    "rubbish arguments": rubbish,
    "places that cannot be written": unwritable,
    "full disk, a limit on files": full_disk,
    "full disk, a real one": full_real_disk,
    "changed and vanished sources": sources,
    "two processes": two_processes,
    "little memory": little_memory,
    "processes of their own": processes,
}
# Each run is killed three times and then resumed to its end; KILLS is the number of kills of each kind.
KILLED = {"kills, second stage": "lite0", "kills, all three stages": "scratch", "kills, refinement": "refine"}
KILLS = 42
IMAGES = "corrupted images"
CASES, QUICK_CASES = 20_000, 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a random part, in less than a minute")
    parser.add_argument("--minutes", type=float, default=30.0, help="about how long it may take")
    parser.add_argument("--only", action="append", choices=[IMAGES, *KINDS, *KILLED], help="may be repeated")
    parser.add_argument("--keep", type=Path, help="a JSON file of outcomes, in which the attempted kinds are updated")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wanted = options.only or [IMAGES, *KINDS, *([] if options.quick else KILLED)]
    warnings.simplefilter("ignore")
    random.seed(options.seed)
    outcomes: Counter[tuple[str, str]] = Counter()
    failures: list[str] = []
    started = time.monotonic()
    seconds = 35.0 if options.quick else 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="spice-attack-") as scratch:
        os.environ["SPICE_CACHE"] = str(Path(scratch) / "cache")
        if IMAGES in wanted:
            for outcome, count in corrupted_images(QUICK_CASES if options.quick else CASES, options.seed).items():
                outcomes[IMAGES, outcome] += count
        ground = prepare(Path(scratch))
        # All kinds share the remaining time evenly; time that one does not use is left for the next ones.
        for place, kind in enumerate(attempted := [kind for kind in KINDS if kind in wanted]):
            left = seconds - (time.monotonic() - started)
            shares = len(attempted) - place + (len(KILLED) if not options.quick and not options.only else 0)
            until = time.monotonic() + left / shares
            try_kind(kind, ground, Path(scratch), outcomes, failures, until=until, seed=options.seed)
        for kind in (kind for kind in KILLED if kind in wanted):
            folder = Path(scratch) / KILLED[kind]
            folder.mkdir()
            # In a new process: a process forked from this one would wait for torch's threads, which are not forked.
            with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as fresh:
                found = fresh.submit(
                    kill_runs, folder, KILLED[kind], runs=KILLS // 3, kills=3, seed=options.seed
                ).result()
            outcomes[kind, "repaired"] += found.same * 3
            outcomes[kind, "CHANGED LABELS"] += KILLS - found.same * 3
    print(table(outcomes if options.keep is None else kept(options.keep, outcomes)))
    print(f"\n{sum(outcomes.values()):,} attempts in {time.monotonic() - started:.0f} s")
    print("\n".join(failures))
    return 1 if any(outcomes[key] for key in outcomes if key[1] in BAD) else 0


def kept(path: Path, outcomes: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Update the outcomes in the file with those of the attempted kinds; returns all of them."""
    saved: dict[str, dict[str, int]] = json.loads(path.read_text()) if path.exists() else {}
    for kind in dict.fromkeys(kind for kind, _ in outcomes):
        saved[kind] = {outcome: count for (of, outcome), count in outcomes.items() if of == kind and count}
    ordered = {kind: saved[kind] for kind in (IMAGES, *KINDS, *KILLED) if kind in saved}
    path.write_text(json.dumps(ordered, indent=1) + "\n")
    return Counter({(kind, outcome): count for kind, found in ordered.items() for outcome, count in found.items()})


def try_kind(
    kind: str,
    ground: Ground,
    scratch: Path,
    outcomes: Counter[tuple[str, str]],
    failures: list[str],
    *,
    until: float,
    seed: int,
) -> None:
    """Make attempts of one kind until the time is over."""
    attempts = list(KINDS[kind](ground))
    if kind not in ("damaged files", "corrupted archives, arrays and lists"):  # which are already in random order
        attempts = shuffled(attempts, seed)
    for number, attempt in enumerate(attempts):
        if number and time.monotonic() > until:  # at least one of every kind
            break
        folder = Path(tempfile.mkdtemp(dir=scratch))
        outcome = attempt.run(folder)
        outcomes[attempt.kind, outcome] += 1
        if outcome not in FINE:
            failures.append(f"{attempt.kind}: {attempt.name}: {outcome}")
            print(failures[-1], file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)


def table(outcomes: Counter[tuple[str, str]]) -> str:
    shown = (*FINE, *BAD)
    lines = [f"| attack | attempts | {' | '.join(shown)} |", f"|---|{'---:|' * (len(shown) + 1)}"]
    for kind in dict.fromkeys(kind for kind, _ in outcomes):
        counts = [outcomes[kind, outcome] for outcome in shown]
        lines.append(f"| {kind} | {sum(counts):,} | {' | '.join(f'{count:,}' for count in counts)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
