"""The figures of a run."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

pytest.importorskip("matplotlib", reason="figures need matplotlib, from the extra `figures`")

from spice.report.figures import LABEL, SIMULATED, gradient_ratio, write_figures


@pytest.mark.parametrize("seed", range(5))
def test_the_ratio_of_gradients_is_that_of_autograd(seed: int) -> None:
    scores = torch.randn(8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, requires_grad=True)
    label = torch.tensor([seed % 8])
    (single,) = torch.autograd.grad(F.cross_entropy(scores[None], label), scores)
    (double,) = torch.autograd.grad(F.cross_entropy(scores.softmax(dim=0)[None], label), scores)
    found = gradient_ratio(scores.detach().softmax(dim=0).numpy(), seed % 8)
    np.testing.assert_allclose(found, (double / single).numpy(), rtol=1e-9)


def test_the_simulation_shows_what_the_paper_says_of_it() -> None:
    assert SIMULATED.sum() == pytest.approx(1)
    others = np.delete(np.arange(8), LABEL - 1)
    ratio = gradient_ratio(SIMULATED, LABEL - 1)
    assert (np.argsort(ratio[others]) == np.argsort(SIMULATED[others])).all()  # likelier, faster
    assert ratio.argmax() == SIMULATED.argmax() == 4  # the false favorite, k = 5, moves most
    assert (ratio < 1).all()


def test_every_figure_is_written_twice_and_the_same_each_time(small: Path, tmp_path: Path) -> None:
    first = write_figures(small, tmp_path / "a")
    assert {path.name for path in first} == {
        f"{name}.{ending}" for name in ("prototypes", "samples", "heads", "double_softmax") for ending in ("png", "svg")
    }
    for path in first:
        if path.suffix == ".png":
            assert np.asarray(Image.open(path).convert("L")).std() > 5  # something is drawn
        else:
            ElementTree.parse(path)
    write_figures(small, tmp_path / "b")
    assert all(
        path.read_bytes() == (tmp_path / "b" / path.name).read_bytes() for path in first if path.suffix == ".png"
    )
