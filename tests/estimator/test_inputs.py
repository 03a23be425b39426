"""What Python users have images in: every kind gives `fit` and `predict` the same groups, in its own order."""

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.metrics import adjusted_rand_score
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from spice import SPICE, load
from spice.data.adapters import adapt
from spice.errors import UserError
from spice.runs import open_result, read_labels
from spice.runs.artifacts import PICTURES, PROBLEMS

Labels = NDArray[np.int32]


@pytest.fixture(scope="module")
def paths(shapes: Path) -> list[Path]:
    """In an order of their own."""
    found = sorted(shapes.rglob("*.png"))
    return [found[number] for number in np.random.default_rng(3).permutation(len(found))]


@pytest.fixture(scope="module")
def fitted(paths: list[Path]) -> SPICE:
    return SPICE(4, size=64).fit(paths)


@pytest.fixture(scope="module")
def pixels(paths: list[Path]) -> NDArray[np.uint8]:
    return np.stack([np.asarray(Image.open(path)) for path in paths])


class Drawings(Dataset[tuple[torch.Tensor, int]]):
    """As torchvision's data sets are: a picture and its class."""

    def __init__(self, pixels: NDArray[np.uint8]) -> None:
        self.images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        return self.images[number], number % 3


class Stream(IterableDataset[Image.Image]):
    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __iter__(self) -> Iterator[Image.Image]:
        return map(Image.open, self.paths)


KINDS: dict[str, Callable[[list[Path], NDArray[np.uint8]], object]] = {
    "generator": lambda paths, _: (Image.open(path) for path in paths),
    "bytes": lambda paths, _: [path.read_bytes() for path in paths],
    "open files": lambda paths, _: [BytesIO(path.read_bytes()) for path in paths],
    "arrays": lambda _, pixels: list(pixels),
    "paths and pictures": lambda paths, _: [paths[0], *map(Image.open, paths[1:])],
    "array of paths": lambda paths, _: np.array([str(path) for path in paths]),
    "tensor": lambda _, pixels: torch.from_numpy(pixels).permute(0, 3, 1, 2),
    "tensors": lambda _, pixels: [torch.from_numpy(image).permute(2, 0, 1) for image in pixels],
    "dataset": lambda _, pixels: Drawings(pixels),
    "iterable dataset": lambda paths, _: Stream(paths),
    "loader": lambda _, pixels: DataLoader(Drawings(pixels), batch_size=7),
    "arrow": lambda paths, _: pa.table({"file": [str(path) for path in paths], "label": [1] * len(paths)}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_input_gets_the_same_answer(
    kind: str, fitted: SPICE, paths: list[Path], pixels: NDArray[np.uint8]
) -> None:
    np.testing.assert_array_equal(fitted.predict(KINDS[kind](paths, pixels)), fitted.labels_)


@pytest.mark.parametrize("kind", ["generator", "loader"])
def test_a_fit_reads_what_can_be_read_only_once(
    kind: str, fitted: SPICE, paths: list[Path], pixels: NDArray[np.uint8]
) -> None:
    found = SPICE(4, size=64).fit(KINDS[kind](paths, pixels))
    assert adjusted_rand_score(found.labels_, fitted.labels_) == 1.0


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_with_a_column_of_paths(library: str, fitted: SPICE, paths: list[Path]) -> None:
    frames = pytest.importorskip(library)
    listed = frames.DataFrame({"id": range(len(paths)), "path": [str(path) for path in paths]})
    np.testing.assert_array_equal(fitted.predict(listed), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict(listed["path"]), fitted.labels_)
    with pytest.raises(UserError, match=r"no image column; name one `path` \(found: id, name\)"):
        adapt(frames.DataFrame({"id": ["1"], "name": ["x"]}))


def test_a_data_set_of_hugging_face(fitted: SPICE, paths: list[Path]) -> None:
    datasets = pytest.importorskip("datasets")
    named = {"image": [str(path) for path in paths], "label": [0] * len(paths)}
    drawn = datasets.Dataset.from_dict(named).cast_column("image", datasets.Image())
    assert isinstance(drawn[0]["image"], Image.Image)
    np.testing.assert_array_equal(fitted.predict(drawn), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict(drawn.with_format("torch")), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict(drawn.to_iterable_dataset()), fitted.labels_)
    with pytest.raises(UserError, match=r"several splits; pass one of them, such as data\['train'\]"):
        fitted.predict(datasets.DatasetDict({"train": drawn}))
    with pytest.raises(UserError, match="no image column"):
        fitted.predict(drawn.remove_columns("image"))


def test_what_holds_no_images_is_refused_in_words(fitted: SPICE, pixels: NDArray[np.uint8]) -> None:
    with pytest.raises(UserError, match=r"may contain paths, PIL images, .* this one contains: object"):
        fitted.predict([object()])
    with pytest.raises(UserError, match="int is not a collection of images"):
        fitted.predict(3)
    with pytest.raises(UserError, match=r"values from -\d.* not normalized"):
        fitted.predict(DataLoader(TensorDataset(Drawings(pixels).images * 4 - 2), batch_size=8))
    assert fitted.predict([b"no image", pixels[0]])[0] == -1


def blobs(images: int = 120, *, seed: int = 0) -> tuple[NDArray[np.float32], list[int]]:
    random = np.random.default_rng(seed)
    truth = np.arange(images) % 3
    noisy = np.eye(3, 10)[truth] * 3 + 0.3 * random.standard_normal((images, 10)) + 1.0
    return noisy.astype(np.float32), truth.tolist()


@pytest.fixture(scope="module")
def grouped() -> SPICE:
    return SPICE(3).fit(blobs()[0])


def test_vectors_come_in_many_shapes(grouped: SPICE) -> None:
    vectors, _ = blobs()
    rows = [row.tolist() for row in vectors]
    kinds: list[object] = [
        torch.from_numpy(vectors),
        TensorDataset(torch.from_numpy(vectors), torch.zeros(len(vectors))),
        DataLoader(TensorDataset(torch.from_numpy(vectors)), batch_size=50),
        rows,
        pa.table({"id": range(len(rows)), "embedding": rows}),
    ]
    for kind in kinds:
        np.testing.assert_array_equal(grouped.predict(kind), grouped.labels_)
    with pytest.raises(ValueError, match="X has 9 features, but SPICE is expecting 10"):
        grouped.predict(vectors[:, :9])
    with pytest.raises(UserError, match="one vector of numbers per row, all of the same length"):
        grouped.predict(pa.table({"embedding": [[1.0], [1.0, 2.0]]}))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_column_that_is_the_same_for_all_images_does_no_harm(value: float) -> None:
    vectors, truth = blobs()
    vectors[:, 4] = value
    assert adjusted_rand_score(truth, SPICE(3).fit(vectors).labels_) > 0.95


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet"])
def test_a_file_of_vectors_is_clustered_and_predicted_by_the_command(
    ending: str, tmp_path: Path, spice: Callable[..., Any], grouped: SPICE
) -> None:
    vectors, _ = blobs()
    file, run, predicted = tmp_path / f"vectors{ending}", tmp_path / "run", tmp_path / "predicted.csv"
    if ending == ".npy":
        np.save(file, vectors)
    elif ending == ".npz":
        np.savez(file, embedding=vectors, label=np.zeros(len(vectors)))
    else:
        pq.write_table(pa.table({"embedding": list(vectors), "label": [0] * len(vectors)}), file)
    assert spice("cluster", file, "-k", 3, "--out", run).code == 0
    labels = read_labels(open_result(run).folder)
    assert labels.path == [str(row) for row in range(len(vectors))]
    np.testing.assert_array_equal(labels.cluster, grouped.labels_)
    assert (run / "report.html").stat().st_size > 10_000
    assert spice("predict", run, file, "--out", predicted).code == 0
    rows = predicted.read_text().splitlines()[1:]
    assert [int(row.split(",")[1]) for row in rows] == grouped.labels_.tolist()
    np.save(tmp_path / "narrow.npy", vectors[:, :9])
    refused = spice("predict", run, tmp_path / "narrow.npy")
    assert refused.code == 2
    assert "narrow.npy: X has 9 features, but SPICE is expecting 10" in refused.err
    assert spice("resume", run).code == 0
    refused = spice("export", run, tmp_path / "groups", "--as", "folders")
    assert refused.code == 2
    assert "contains vectors of shape (120, 10), not images" in refused.err


def test_a_column_with_one_value_is_no_trouble(tmp_path: Path, spice: Callable[..., Any]) -> None:
    vectors, truth = blobs()
    np.save(tmp_path / "vectors.npy", np.column_stack([vectors, np.full(len(vectors), 5.0)]))
    assert spice("cluster", tmp_path / "vectors.npy", "-k", 3, "--out", tmp_path / "run").code == 0
    found = read_labels(open_result(tmp_path / "run").folder).cluster
    assert adjusted_rand_score(truth, found) > 0.9


def test_vectors_with_paths_show_their_pictures(
    tmp_path: Path, spice: Callable[..., Any], shapes: Path, paths: list[Path]
) -> None:
    vectors, _ = blobs(96)
    names = [str(path.relative_to(shapes.parent)) for path in paths]
    names[5] = "gone.png"
    file = shapes.parent / "vectors.parquet"
    pq.write_table(pa.table({"path": names, "embedding": list(vectors)}), file)
    run = tmp_path / "run"
    try:
        assert spice("cluster", file, "-k", 3, "--out", run).code == 0
        result = open_result(run)
        assert result.labels.path == names, "the vector without a picture is clustered, too"
        assert "gone.png" in (result / PROBLEMS).read_text()
        card = next(path for path in (result / PICTURES).glob("image-*.jpg") if path.stem != "image-5")
        shown = np.asarray(Image.open(card).convert("RGB").resize((8, 8)), dtype=np.float32)
        own = Image.open(shapes.parent / names[int(card.stem.removeprefix("image-"))]).resize((8, 8))
        assert np.abs(shown - np.asarray(own)).mean() < 12, "the picture on a card is that of its vector"
        copied = spice("export", run, tmp_path / "csv.csv", "--as", "csv")
        assert copied.code == 0
    finally:
        file.unlink()


def test_a_model_of_vectors_loads_and_refuses_images(grouped: SPICE, tmp_path: Path, paths: list[Path]) -> None:
    grouped.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(blobs()[0]), grouped.labels_)
    with pytest.raises(UserError, match="trained on feature vectors"):
        grouped.predict(paths)
