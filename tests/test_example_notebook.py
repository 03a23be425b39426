"""The example notebook of the documentation runs from its first cell to its last, in a kernel of its own."""

import csv
from collections import Counter
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[1] / "docs" / "example.ipynb"


@pytest.mark.slow
def test_the_example_runs_from_a_folder_to_a_corrected_export(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    with (tmp_path / "corrected.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 120
    assert set(Counter(row["name"] for row in rows)) == {"temple", "flower", "digit"}
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not any(output.output_type == "error" for output in outputs)
    shown = [output.data for output in outputs if "data" in output]
    assert any("<progress" in data.get("text/html", "") for data in shown), "bars are drawn while it fits"
    assert sum("image/png" in data for data in shown) == 2, "contact sheets are displayed"
