"""Images of one color hold nothing to tell apart: every command ends with labels and a warning, none in an error."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spice.errors import SpiceWarning
from spice.pipeline import cluster
from spice.presets import standard
from spice.runs import open_result
from spice.settings import FeatureSettings, JointSettings


@pytest.mark.parametrize("colors", [(0,), (255,), (0, 255)])
@pytest.mark.parametrize("side", [1, 32])
@pytest.mark.parametrize("encoder", ["lite0", "scratch"])
def test_blank_images_end_in_labels(tmp_path: Path, colors: tuple[int, ...], side: int, encoder: str) -> None:
    (tmp_path / "blank").mkdir()
    for number in range(16):
        pixels = np.full((side, side, 3), colors[number % len(colors)], dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "blank" / f"{number}.png")
    usual = standard(clusters=2, encoder=encoder, size=32, refine=True)
    small: dict[str, object] = {"joint": JointSettings(steps=4, labeled=8, unlabeled=8)}
    if encoder == "scratch":
        small["features"] = FeatureSettings(
            method="simclr", network="whitened-patches", width=8, epochs=2, batch=16, momentum=None
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpiceWarning)
        summary = cluster(tmp_path / "blank", usual.model_copy(update=small), tmp_path / "run")
    result = open_result(tmp_path / "run")
    assert summary.images == 16
    assert np.isfinite(result.labels.confidence).all()
    for color in range(len(colors)):  # equal images have equal labels
        rows = [row for row, path in enumerate(result.labels.path) if int(path[:-4]) % len(colors) == color]
        assert len(set(result.labels.cluster[rows].tolist())) == 1
    if len(colors) == 1:
        assert summary.joint is not None
        assert not summary.joint.used
