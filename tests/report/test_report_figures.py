"""The figures of a run."""

import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from pictured_runs import add_all_stages, make_pictured_run
from PIL import Image
from torch.nn import functional as F

pytest.importorskip("matplotlib", reason="figures need matplotlib, from the extra `figures`")

from spice.report import figures
from spice.report.content import read_content
from spice.report.figures import LABEL, SIMULATED, gradient_ratio, heads, prototypes, samples, write_figures
from spice.runs import Result


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


NAMES = ("prototypes", "samples", "heads", "double_softmax")


def drawn(path: Path) -> float:
    """How much the pixels of a figure differ."""
    return float(np.asarray(Image.open(path).convert("L")).std())


def test_every_figure_is_written_twice_and_the_same_each_time(
    small: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_figures(small.run, tmp_path / "a")
    assert {path.name for path in first} == {f"{name}.{ending}" for name in NAMES for ending in ("png", "svg")}
    for path in first:
        if path.suffix == ".png":
            assert drawn(path) > 5
        else:
            ElementTree.parse(path)
    monkeypatch.setattr(figures, "FIGURES", {"samples": samples, "heads": heads})
    for path in write_figures(small.run, tmp_path / "b"):
        assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes()


def test_an_evaluated_run_shows_what_labels_say(small: Result, tmp_path: Path) -> None:
    run = Path(shutil.copytree(small.run, tmp_path / "run", symlinks=True))
    add_all_stages(run)
    names = {path.name for path in write_figures(run, tmp_path / "figures")}
    assert "kept.png" in names
    texts = {name: (tmp_path / "figures" / f"{name}.svg").read_text() for name in ("heads", "kept", "samples")}
    assert "selected without labels" in texts["heads"]
    assert "best by true labels" in texts["heads"]
    assert "kept by chance" in texts["kept"]
    assert "(b) reliable" in texts["samples"]
    assert "ACC" in texts["samples"]
    assert drawn(tmp_path / "figures" / "kept.png") > 5


@pytest.mark.parametrize(("images", "clusters"), [(1, 2), (40, 2), (600, 130)])
def test_few_and_many_clusters_are_drawn_too(images: int, clusters: int, tmp_path: Path) -> None:
    content = read_content(make_pictured_run(tmp_path / "run", images=images, clusters=clusters))
    for draw in (prototypes, samples, heads):
        figure = draw(content)
        assert figure is not None
        figure.savefig(tmp_path / "figure.png", dpi=30)
        assert drawn(tmp_path / "figure.png") > 3
    shutil.rmtree(content.pictures)
    assert prototypes(content) is None
