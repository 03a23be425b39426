"""docs/paper.md is complete, and names nothing that does not exist."""

import importlib
import re
from pathlib import Path

import spice.core

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")


def test_every_public_name_of_the_core_has_its_row() -> None:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    missing = [name for name in spice.core.__all__ if f"`spice.core.{name}`" not in rows]
    assert missing == []


# What the paper asks for, in its order. Each must have a row, and so a function and a test.
REQUIREMENTS = [
    "III-A, L_fea", "III-A, θ'", "III-A, the queue", "III-A: the feature model", "III-A: two random transformations",
    "III-B, F_k and", "III-B, X^k and X^s", "III-B, the figure's toy example", "III-B, overlap and non-overlap",
    "III-B, L_clu", "III-B, Algorithm 1", "III-B: the best head", "III-C, r_i", "III-C, X^r", "III-C, y^u",
    "III-C, L_joint", "III-C: reliable images", "III-C: joint training", "IV-C: STL-10's unlabeled images",
    "IV-B: weak views", "IV-B: strong views", "Table I: data sets", "IV-B: settings of all stages",
    "IV-C: the whole and the split setting",
    "Tables II to VIII: data sets", "Tables II to VIII: the network", "Tables II to IV: ACC",
    "Table II: k-means, SC, AC, NMF",
    "Table II: AE, SDAE, VAE, DEC", "Tables II to IV: SCAN", "Tables II and III: IIC, PICA, CC, IDFD",
    "Table III: NNM", "Table III: RUC",
    "Table III: SPICE_Res34", "Tables III and IV: supervised", "Table V: ", "Table VI: ", "Table VII: ", "Table VIII: ",
    "Ablation of the loss: plain CE", "Ablation of the loss: CE with a temperature", "IV-F: the temperatures",
    "Ablation, and K = 200: the entropy term", "IV-F: the entropy term for 200", "The figure of reliable labels: joint",
    "The figure of reliable labels: t-SNE", "The figure of neighbors", "The figure of the toy example",
    "The figure of prototypes", "The figure of head selection", "Tables III and IV: best of runs",
    "Appendix A, the derivative", "Appendix A, the ratio", "Appendix A, the figure of the simulation",
]  # fmt: skip


def test_every_requirement_of_the_paper_has_its_row_with_a_function_and_a_test() -> None:
    complete = [line for line in PAGE.splitlines() if "`spice." in line and ".py::test_" in line]
    missing = [part for part in REQUIREMENTS if not any(row.startswith(f"| {part}") for row in complete)]
    assert missing == []


def test_every_row_names_a_function_and_a_test() -> None:
    for row in (line for line in PAGE.splitlines() if line.startswith("|") and "`" in line):
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 4, row
        assert "`spice." in cells[1], row
        assert ".py::test_" in cells[2], row
        assert cells[3], row


def test_everything_the_page_names_exists() -> None:
    names = re.findall(r"`(spice(?:\.\w+)+)`", PAGE)
    assert len(names) >= len(spice.core.__all__)
    assert [name for name in names if not exists(name)] == []


def test_every_test_the_page_names_exists() -> None:
    cited = re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE)
    assert cited
    files = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    assert [test for file, test in cited if f"def {test}(" not in files.get(file, "")] == []


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    owner, _, last = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return hasattr(importlib.import_module(owner), last)
    return True
