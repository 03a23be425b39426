"""`SPICE.fit` on a folder with what systems leave in folders."""

from pathlib import Path

import numpy as np

from spice import SPICE


def test_an_icon_file_of_macos_is_a_problem_and_not_an_error(shapes: Path, tmp_path: Path) -> None:
    images = tmp_path / "photos"
    images.mkdir()
    for path in sorted(shapes.rglob("*.png"))[::6]:
        (images / f"{path.parent.name}-{path.name}").write_bytes(path.read_bytes())
    (images / "Icon\r").touch()
    fitted = SPICE(2, size=32, preset="quick").fit(images)
    assert len(fitted.labels_) == 16
    assert set(np.unique(fitted.labels_)) <= {0, 1}
    assert "Icon\r" not in fitted.paths_
