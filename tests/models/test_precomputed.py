"""Vectors the user brings: each row finds its image, and nothing is guessed."""

import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

from spice.errors import UserError
from spice.models.encoders import load_encoder
from spice.models.precomputed import PrecomputedFeatures, checked_vectors

VECTORS = np.arange(12, dtype=np.float64).reshape(4, 3)
PATHS = ["d.jpg", "b.jpg", "a.jpg", "c.jpg"]


def load(path: Path) -> PrecomputedFeatures:
    encoder = load_encoder(f"features:{path}")
    assert isinstance(encoder, PrecomputedFeatures)
    return encoder


def test_rows_without_paths_belong_to_the_sorted_paths(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", VECTORS)
    encoder = load(tmp_path / "f.npy")
    assert (encoder.features, encoder.module) == (3, None)
    assert encoder.vectors.dtype == torch.float32
    assert encoder.vectors_of(PATHS).tolist() == VECTORS[[3, 1, 0, 2]].tolist()


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_rows_with_paths_find_their_images(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"f.{kind}"
    if kind == "npz":
        np.savez(path, features=VECTORS, paths=np.array(PATHS))
    else:
        parquet.write_table(pyarrow.table({"path": PATHS, "features": list(VECTORS.astype(np.float32))}), path)
    assert load(path).vectors_of(["a.jpg", "b.jpg", "c.jpg", "d.jpg"]).tolist() == VECTORS[[2, 1, 3, 0]].tolist()
    with pytest.raises(UserError, match=r"no vector for 1 of the images, among them e.jpg"):
        load(path).vectors_of(["a.jpg", "b.jpg", "c.jpg", "e.jpg"])


def test_more_or_fewer_vectors_than_images_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", VECTORS)
    with pytest.raises(UserError, match=r"holds 4 vectors, but there are 3 images"):
        load(tmp_path / "f.npy").vectors_of(PATHS[:3])


def test_new_images_have_no_vector_and_it_is_said(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", VECTORS)
    for method in (load(tmp_path / "f.npy").encode, load(tmp_path / "f.npy").feature_map):
        with pytest.raises(UserError, match=r"contains vectors, not a model"):
            method(torch.zeros(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros(4), r"holds float64 of shape \(4,\); expected numbers of shape \(images, features\)"),
        (np.zeros((0, 3)), r"of shape \(0, 3\)"),
        (np.array([["a", "b"]]), r"holds <U1"),
        (np.zeros((4, 0)), r"of shape \(4, 0\); expected numbers of shape \(images, features\)"),
        (np.array([[1.0, np.nan], [0.0, 1.0], [np.inf, 0.0]]), r"has 2 vectors with a value that is not finite"),
        (np.array([[1.0, 3e38], [1.0, 2.0]], dtype=np.float32), r"has 1 vectors with .* above 1e\+15.* scale"),
        (np.array([[1.0, -1e30], [1.0, 2.0]]), r"has 1 vectors with .* above 1e\+15"),
        (np.array([[1.0, 1e300], [1.0, 2.0]]), r"has 1 vectors with .* above 1e\+15"),
        (np.zeros((4, 3)), r"holds no value above 1e-15 \(the largest is 0\), so all images look the same"),
        (np.full((4, 3), -1e-40), r"holds no value above 1e-15 \(the largest is 1e-40\)"),
        (np.full((4, 3), 1e-300), r"holds no value above 1e-15 \(the largest is 0\)"),
        (np.array([[{}]], dtype=object), r"cannot read features from .*Python objects"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(tmp_path: Path, values: np.ndarray, words: str) -> None:
    np.save(tmp_path / "f.npy", values)
    with pytest.raises(UserError, match=words) as caught:
        load(tmp_path / "f.npy")
    assert "\n" not in str(caught.value)
    if values.dtype != object:  # the same vectors as an array
        with pytest.raises(UserError, match=words):
            checked_vectors(values, "the array")


def test_blank_images_among_others_are_fine(tmp_path: Path) -> None:
    vectors = VECTORS.copy()
    vectors[1], vectors[2] = 0.0, 1e-40
    np.save(tmp_path / "f.npy", vectors)
    assert load(tmp_path / "f.npy").vectors.tolist() == vectors.astype(np.float32).tolist()


def test_an_array_that_declares_more_than_its_file_holds_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "f.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file,
            {"descr": "<f8", "fortran_order": False, "shape": (10**9, 16_000)},  # 116 TiB
        )
    with (tmp_path / "f.npy").open("rb") as file, zipfile.ZipFile(tmp_path / "f.npz", "w") as archive:
        archive.writestr("features.npy", file.read())
    for name in ("f.npy", "f.npz"):
        with pytest.raises(UserError, match=rf"cannot read features from .*{name}"):
            load(tmp_path / name)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_archive_of_vectors_is_refused_in_words(tmp_path: Path, save: Callable[..., None]) -> None:
    path = tmp_path / "f.npz"
    save(path, features=VECTORS, paths=np.array(PATHS))
    whole, luck, messages = path.read_bytes(), random.Random(0), list[str]()
    for number in range(200):
        data = bytearray(whole)
        data[luck.randrange(len(data))] ^= 1 << luck.randrange(8)
        path.write_bytes(data if number % 2 else whole[: luck.randrange(len(whole))])
        try:
            load(path)
        except UserError as error:
            messages.append(str(error))
    assert len(messages) > 100  # every truncated file, and most of those with a flipped bit
    assert not any("\n" in message for message in messages)


def test_files_that_cannot_be_read_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "f.npy").write_bytes(b"nonsense")
    (tmp_path / "f.npz").write_bytes(b"nonsense")
    (tmp_path / "f.parquet").write_bytes(b"nonsense")
    (tmp_path / "f.txt").write_text("1 2 3")
    np.savez(tmp_path / "other.npz", embeddings=VECTORS)
    parquet.write_table(pyarrow.table({"path": PATHS}), tmp_path / "other.parquet")
    np.savez(tmp_path / "short.npz", features=VECTORS, paths=np.array(PATHS[:2]))
    np.savez(tmp_path / "twice.npz", features=VECTORS, paths=np.array(["a", "b", "a", "c"]))
    for name, words in (
        ("gone.npy", "there is no file"),
        ("f.txt", r"must end in one of .npy, .npz, .parquet"),
        ("f.npy", "cannot read features"),
        ("f.npz", "cannot read features"),
        ("f.parquet", "cannot read features"),
        ("other.npz", "cannot read features .*features"),
        ("other.parquet", "cannot read features .*features"),
        ("short.npz", "has 4 vectors but 2 paths"),
        ("twice.npz", "names a more than once"),
    ):
        with pytest.raises(UserError, match=words) as caught:
            load(tmp_path / name)
        assert "\n" not in str(caught.value)
