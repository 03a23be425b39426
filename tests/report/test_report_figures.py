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

from spice.core import prototype_labels
from spice.core import prototypes as core_prototypes
from spice.report import figures
from spice.report.content import read_content
from spice.report.figures import LABEL, SIMULATED, gradient_ratio, heads, samples, write_figures
from spice.report.picture_figures import among_other_kinds, nearest_to_centers, neighbors, prototypes
from spice.report.toy_figure import FEATURES, PROBS, toy
from spice.runs import Result
from spice.runs.artifacts import FEATURES as FEATURES_FILE
from spice.runs.artifacts import PROBABILITIES


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


@pytest.mark.parametrize("overlap", [True, False])
def test_the_toy_example_is_what_the_core_makes_of_it(overlap: bool) -> None:
    found = toy()
    labels = prototype_labels(torch.from_numpy(FEATURES), torch.from_numpy(PROBS), overlap=overlap)
    assert labels.image.view(3, 3).tolist() == (found.overlap.tolist() if overlap else found.once)
    centers = core_prototypes(torch.from_numpy(FEATURES), torch.from_numpy(PROBS), per_cluster=3)
    np.testing.assert_allclose(found.prototypes, centers.numpy())
    # What the figure is to show: an image with two labels, images with none, and what no overlap changes.
    often = np.bincount(found.overlap.ravel(), minlength=10)
    assert (often.max(), often.min()) == (2, 0)
    assert sorted(image for images in found.once for image in images) != sorted(found.overlap.ravel().tolist())


def test_prototypes_are_the_nearest_of_all_images_whatever_their_cluster(small: Result) -> None:
    features, probs = (np.load(small / artifact).astype(np.float64) for artifact in (FEATURES_FILE, PROBABILITIES))
    expected = []
    for cluster in range(probs.shape[1]):
        sure = sorted(range(len(probs)), key=lambda row: -probs[row, cluster])[: len(probs) // probs.shape[1]]
        center = features[sure].mean(axis=0)
        cosine = features @ center / np.linalg.norm(features, axis=1) / np.linalg.norm(center)
        expected.append(np.argsort(-cosine)[:3].tolist())
    assert nearest_to_centers(read_content(small)).tolist() == expected


def test_queries_are_images_among_others_one_of_each_kind_the_worst_first() -> None:
    kind = np.array([0, 0, 1, 1, 1, -1, 2])
    near = np.array([[1, 2], [2, 3], [3, 4], [0, 1], [2, 3], [0, 1], [0, 6]])
    # Image 0: half of its kind; 1: none; 2, 4: all; 3: none; 5 has no kind; 6: half.
    assert among_other_kinds(near, kind).tolist() == [1, 3]


NAMES = ("prototypes", "samples", "heads", "neighbors", "toy", "double_softmax")


def drawn(path: Path) -> float:
    """How much the pixels of a figure differ."""
    return float(np.asarray(Image.open(path).convert("L")).std())


def test_every_figure_is_written_twice_and_the_same_each_time(
    small: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_figures(small.run, tmp_path / "a")
    assert "true class" not in (tmp_path / "a" / "samples.svg").read_text()
    assert "group 1" in (tmp_path / "a" / "neighbors.svg").read_text()
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
    drawn_names = ("heads", "kept", "samples", "neighbors")
    texts = {name: (tmp_path / "figures" / f"{name}.svg").read_text() for name in drawn_names}
    assert "true class" in texts["samples"]
    assert "dog" in texts["samples"]
    assert "dog" in texts["neighbors"]
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
    without = read_content(content.result.reread())
    assert prototypes(without) is None
    assert neighbors(without) is None
