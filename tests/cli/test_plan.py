"""`spice doctor --plan N`: what a run needs, and a bound on memory that holds."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spice.runs.resource_needs import needs

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "memory.py"


# The others take less, and predict takes minutes (benchmarks/memory.py measures all).
COMMANDS = ("cluster", "report", "evaluate", "export csv")


def test_the_plan_grows_with_the_images_and_names_memory_and_disk(spice: Callable[..., Any]) -> None:
    ended = spice("doctor", "--plan", "20000")
    assert ended.code == 0
    promised = needs(20_000).memory
    assert f"at most {promised / 1e9:.1f} GB" in ended.out
    assert "disk: decoded images" in ended.out
    assert "needed" not in ended.out, "the plan and nothing else"
    assert needs(40_000).memory - promised == promised - needs(0).memory
    assert spice("doctor", "--plan", "0").code == 2


def test_the_plan_of_a_source_says_what_each_step_takes_and_writes_nothing(
    spice: Callable[..., Any], shapes: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    ended = spice("cluster", str(shapes), "-k", "4", "--size", "32", "--plan", "--json", "--out", str(out))
    assert ended.code == 0
    plan, files = json.loads(ended.out), [path for path in shapes.rglob("*") if path.is_file()]
    assert plan["images"] == len(files)
    assert plan["bytes"] == sum(path.stat().st_size for path in files)
    assert plan["steps"][0]["name"] == "read and embed"
    assert all(step["seconds"] > 0 and step["memory"] > 0 for step in plan["steps"])
    assert not out.exists()
    told = spice("cluster", str(shapes), "-k", "4", "--size", "32", "--plan").out
    assert "total" in told
    assert "Memory excludes mapped files" in told
    refused = spice("cluster", str(shapes), "--encoder", "scratch", "-k", "4", "--plan")
    assert refused.code == 2
    assert "pretrained" in refused.err


def test_a_plan_without_k_includes_the_search_for_the_number_of_groups(
    spice: Callable[..., Any], shapes: Path, tmp_path: Path
) -> None:
    def planned(*options: str) -> dict[str, float]:
        ended = spice("cluster", str(shapes), "--size", "32", "--plan", "--json", *options)
        return {step["name"]: step["seconds"] for step in json.loads(ended.out)["steps"]}

    searched = {"number of groups", "tree of groups"}
    found = planned()
    assert searched < found.keys()
    assert all(found[name] > 0 for name in searched)
    assert not searched & planned("-k", "4").keys()
    assert searched & planned("--cut", "4").keys() == {"tree of groups"}
    run = tmp_path / "run"
    assert spice("cluster", str(shapes), "--size", "32", "--out", str(run)).code == 0
    taken = json.loads(next((run / "steps").glob("howmany-*/howmany.json")).read_text())["seconds"]
    assert taken / 10 < found["number of groups"] < taken * 10, "wide, because other programs run at the same time"


def test_a_large_plan_has_views_of_a_sample_and_a_store_with_a_limit() -> None:
    large = needs(1_000_000, sample=40_000)
    assert large.views == needs(40_000).views
    assert large.pixels == 32 << 30


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_commands_take_no_more_memory_than_promised_for_20_000_images() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--images", "20000", "--width", "64", "--only", *COMMANDS],
        capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for command in COMMANDS:
        assert f"| {command} | 20,000 |" in done.stdout
