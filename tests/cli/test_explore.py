"""`spice open` on a run of the real pipeline."""

from pathlib import Path

import pytest
from serving import opened

from spice.runs import open_result


@pytest.mark.slow
def test_an_example_finds_its_own_image_first(session_run: Path, shapes: Path) -> None:
    labels = open_result(session_run).labels
    with opened(session_run) as explorer:
        explorer.enter()
        content = (shapes / labels.path[5]).read_bytes()
        raw = {"Content-Type": "application/octet-stream"}
        found = explorer.request("/api/example", content, headers=raw).json
        assert found["rows"][0] == 5
        assert found["similarity"][0] > 0.99
        assert found["similarity"] == sorted(found["similarity"], reverse=True)
        same = [labels.cluster[row] == labels.cluster[5] for row in found["rows"][:5]]
        assert sum(same) >= 4
        refused = explorer.request("/api/example", b"not an image", headers=raw)
        assert refused.status == 422
        assert "cannot be read as an image" in refused.json["error"]
