"""Every data set is read as published: small archives in the published layouts give back the images put in."""

import gzip
import io
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from spice.benchmark.datasets import CATALOG, Card, Part, load
from spice.benchmark.datasets.shelf import read
from spice.errors import UserError

Pixels = NDArray[np.uint8]
Values = dict[str, str | NDArray[np.generic]]  # of a CIFAR batch


class Made(NamedTuple):
    """Images and labels as they were put into a layout."""

    pixels: Pixels  # (N, H, W) or (N, H, W, 3)
    labels: NDArray[np.int64]


def made(count: int, side: int, classes: int, *, seed: int, gray: bool = False) -> Made:
    random = np.random.default_rng(seed)
    shape = (count, side, side) if gray else (count, side, side, 3)
    return Made(random.integers(0, 256, shape, dtype=np.uint8), random.integers(0, classes, count))


def planes(pixels: Pixels) -> Pixels:
    """(N, H, W, 3) -> (N, 3 * H * W): red, green, blue, each row by row."""
    return pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)


# The layouts, written from their descriptions.


def stl10(folder: Path, train: Made, test: Made) -> None:
    for name, part in (("train", train), ("test", test)):
        columns_first = part.pixels.transpose(0, 3, 2, 1)  # (N, C, W, H)
        (folder / f"{name}_X.bin").write_bytes(columns_first.tobytes())
        (folder / f"{name}_y.bin").write_bytes(bytes(part.labels.astype(np.uint8) + 1))


def cifar10_binary(folder: Path, train: Made, test: Made) -> None:
    _write_binary(folder / "test_batch.bin", test.labels[:, None], test.pixels)
    for number in range(5):
        part = slice(number * len(train.labels) // 5, (number + 1) * len(train.labels) // 5)
        _write_binary(folder / f"data_batch_{number + 1}.bin", train.labels[part, None], train.pixels[part])


def cifar100_binary(folder: Path, train: Made, test: Made) -> None:
    for name, part in (("train", train), ("test", test)):
        fine = 99 - part.labels
        _write_binary(folder / f"{name}.bin", np.stack([part.labels, fine], axis=1), part.pixels)


def _write_binary(path: Path, labels: NDArray[np.int64], pixels: Pixels) -> None:
    path.write_bytes(np.concatenate([labels.astype(np.uint8), planes(pixels)], axis=1).tobytes())


def cifar10_python(folder: Path, train: Made, test: Made) -> None:
    (folder / "test_batch").write_bytes(python2_pickle({"data": planes(test.pixels), "labels": test.labels}))
    for number in range(5):
        part = slice(number * len(train.labels) // 5, (number + 1) * len(train.labels) // 5)
        batch: Values = {
            "batch_label": "training batch",
            "data": planes(train.pixels[part]),
            "labels": train.labels[part],
        }
        (folder / f"data_batch_{number + 1}").write_bytes(python2_pickle(batch))


def cifar100_python(folder: Path, train: Made, test: Made) -> None:
    for name, part in (("train", train), ("test", test)):
        batch: Values = {"data": planes(part.pixels), "fine_labels": 99 - part.labels, "coarse_labels": part.labels}
        (folder / name).write_bytes(python2_pickle(batch))


def python2_pickle(batch: Values) -> bytes:
    """A dictionary as Python 2 pickled it (protocol 2, byte strings): the form in which CIFAR is published."""
    items = [_short(key) + _python2_value(value) for key, value in batch.items()]
    return b"\x80\x02}(" + b"".join(items) + b"u."


def _python2_value(value: str | NDArray[np.generic]) -> bytes:
    if isinstance(value, str):
        return _short(value)
    if value.dtype != np.uint8:
        return b"](" + b"".join(b"K" + bytes([number]) for number in value.tolist()) + b"e"
    shape = b"".join(b"J" + struct.pack("<i", size) for size in value.shape) + b"\x86"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return empty + b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<i", value.nbytes) + value.tobytes() + b"tb"


def _short(text: str) -> bytes:
    return b"U" + bytes([len(text)]) + text.encode()


def idx(folder: Path, train: Made, test: Made) -> None:
    for name, part in (("train", train), ("t10k", test)):
        for kind, values in (("images-idx3", part.pixels), ("labels-idx1", part.labels.astype(np.uint8))):
            head = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + values.tobytes()))


def idx_unpacked(folder: Path, train: Made, test: Made) -> None:
    idx(folder, train, test)
    for path in list(folder.iterdir()):
        path.with_name(path.stem.replace("-idx", ".idx")).write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()


def npz(folder: Path, train: Made, test: Made) -> None:
    with_channel = train.pixels[..., None]
    np.savez(folder / "any.npz", x_train=with_channel, y_train=train.labels, x_test=test.pixels, y_test=test.labels)


def class_folders(folder: Path, train: Made, test: Made, *, names: tuple[str, ...], test_name: str = "val") -> None:
    for part, place in ((train, "train"), (test, test_name)):
        for number, (pixels, label) in enumerate(zip(part.pixels, part.labels, strict=True)):
            save(pixels, folder / place / names[label] / f"{number:03}.png")
        for name in names:
            (folder / place / name).mkdir(parents=True, exist_ok=True)


def save(pixels: Pixels, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def tiny_imagenet(folder: Path, train: Made, test: Made) -> None:
    names = [f"n{9 - label:08}" for label in range(3)]  # the list is not in alphabetical order
    (folder / "wnids.txt").write_text("\n".join(names) + "\n")
    for number, (pixels, label) in enumerate(zip(train.pixels, train.labels, strict=True)):
        save(pixels, folder / "train" / names[2 - label] / "images" / f"{names[2 - label]}_{number}.png")
    rows = []
    for number, (pixels, label) in enumerate(zip(test.pixels, test.labels, strict=True)):
        save(pixels, folder / "val" / "images" / f"val_{number}.png")
        rows.append(f"val_{number}.png\t{names[2 - label]}\t0\t0\t62\t57\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(reversed(rows)))
    save(test.pixels[0], folder / "test" / "images" / "test_0.png")


def pixels_of(part: Part) -> list[bytes]:
    """Each image as bytes, for arrays and for files alike."""
    if isinstance(part.images, np.ndarray):
        return [image.tobytes() for image in part.images]
    return [np.asarray(Image.open(path)).tobytes() for path in part.images]


def same(part: Part | None, expected: Made, *, in_order: bool) -> bool:
    """The same images with the same labels; files in class folders have an order of their own."""
    assert part is not None
    found = list(zip(pixels_of(part), part.truth().labels.tolist(), strict=True))
    wanted = list(zip([image.tobytes() for image in expected.pixels], expected.labels.tolist(), strict=True))
    return found == wanted if in_order else sorted(found) == sorted(wanted)


BINARY: dict[str, tuple[str, Callable[[Path, Made, Made], None], int]] = {
    "STL-10, binary": ("stl10", stl10, 96),
    "CIFAR-10, binary": ("cifar10", cifar10_binary, 32),
    "CIFAR-10, python": ("cifar10", cifar10_python, 32),
    "CIFAR-100, binary": ("cifar100-20", cifar100_binary, 32),
    "CIFAR-100, python": ("cifar100-20", cifar100_python, 32),
    "MNIST, idx": ("mnist", idx, 28),
    "MNIST, idx unpacked": ("mnist", idx_unpacked, 28),
    "Fashion-MNIST, npz": ("fashion-mnist", npz, 28),
}


@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "in a folder"])
@pytest.mark.parametrize("layout", BINARY)
def test_arrays_come_out_as_they_went_in(layout: str, wrapped: bool, tmp_path: Path) -> None:
    name, write, side = BINARY[layout]
    card = CATALOG[name]
    train, test = (made(count, side, card.clusters, seed=count, gray=side == 28) for count in (10, 4))
    inside = tmp_path / "of-any-name" if wrapped and layout != "Fashion-MNIST, npz" else tmp_path
    inside.mkdir(exist_ok=True)
    write(inside, train, test)
    found = read(card, tmp_path)
    assert same(found.train, train, in_order=True)
    assert same(found.test, test, in_order=True)
    assert found.classes == card.classes
    assert found.counts == (10, 4, 0)
    assert isinstance(found.train.images, np.ndarray)
    assert found.train.images.shape == train.pixels.shape


@pytest.mark.parametrize(("name", "test_name"), [("imagenette", "val"), ("imagewoof", "val"), ("cifar10", "test")])
@pytest.mark.parametrize("by", ["id", "name"])
def test_class_folders_are_read_by_id_or_by_name(name: str, test_name: str, by: str, tmp_path: Path) -> None:
    card = CATALOG[name]
    names = tuple(spelled(title, by) for title in card.classes)
    train, test = made(12, 20, 10, seed=0), made(6, 20, 10, seed=1)
    class_folders(tmp_path / "wrapped", train, test, names=names, test_name=test_name)
    (tmp_path / "wrapped" / "noisy.csv").write_text("path,label\n")
    (tmp_path / "wrapped" / "train" / names[0] / "._hidden.png").write_text("left by a file manager")
    found = read(card, tmp_path)
    assert same(found.train, train, in_order=False)
    assert same(found.test, test, in_order=False)


def spelled(title: str, by: str) -> str:
    number, _, name = title.partition(" ")
    return number if by == "id" or not name else name.lower().replace(" ", "_")


def test_tiny_imagenet_takes_the_labels_of_its_test_part_from_the_table(tmp_path: Path) -> None:
    train, test = made(9, 16, 3, seed=0), made(5, 16, 3, seed=1)
    tiny_imagenet(tmp_path, train, test)
    found = read(CATALOG["tiny-imagenet"], tmp_path)
    assert same(found.train, train, in_order=False)
    assert same(found.test, test, in_order=False)
    assert found.classes == ("n00000007", "n00000008", "n00000009")
    (tmp_path / "val" / "val_annotations.txt").write_text("val_0.png\tn00000009\n")
    assert found.test is not None
    with pytest.raises(UserError, match=r"do not give the class of 'val_1\.png'"):
        found.test.truth()


@pytest.mark.parametrize("name", ["imagenet-10", "imagenet-dog"])
@pytest.mark.parametrize("place", [".", "train", "ILSVRC/Data/CLS-LOC/train", "a-selection/train"])
def test_subsets_of_imagenet_are_their_classes_and_no_other(name: str, place: str, tmp_path: Path) -> None:
    card = CATALOG[name]
    images = made(20, 16, card.clusters, seed=0)
    for number, (pixels, label) in enumerate(zip(images.pixels, images.labels, strict=True)):
        save(pixels, tmp_path / place / card.classes[label] / f"{number}.JPEG.png")
    for title in card.classes:
        (tmp_path / place / title).mkdir(parents=True, exist_ok=True)
    save(images.pixels[0], tmp_path / place / "n01440764" / "tench.png")
    found = read(card, tmp_path)
    assert same(found.train, images, in_order=False)
    assert found.counts == (20, 0, 0)
    (tmp_path / place / card.classes[3]).rename(tmp_path / place / "n99999999")
    with pytest.raises(UserError, match="does not contain ImageNet-"):
        read(card, tmp_path)


def test_digits_need_nothing() -> None:
    found = load("digits")
    assert isinstance(found.train.images, np.ndarray)
    assert found.train.images.shape == (1797, 8, 8)
    assert found.train.images.max() == 255
    assert found.counts == CATALOG["digits"].counts
    assert found.train.truth().labels[:10].tolist() == list(range(10))


@pytest.mark.parametrize(
    ("layout", "file", "words"),
    [
        ("STL-10, binary", "train_X.bin", "bytes, not a multiple of 27,648"),
        ("CIFAR-10, binary", "data_batch_3.bin", "bytes, not a multiple of 3,073"),
        ("CIFAR-10, python", "data_batch_3", "is not a CIFAR batch"),
        ("CIFAR-100, python", "test", "is not a CIFAR batch"),
        ("MNIST, idx", "t10k-images-idx3-ubyte.gz", "is it complete"),
        ("MNIST, idx unpacked", "train-images.idx3-ubyte", r"says it has 7,840 values, but contains 7,740"),
        ("Fashion-MNIST, npz", "any.npz", "cannot be read as arrays"),
    ],
)
def test_a_file_that_ends_too_early_is_told(layout: str, file: str, words: str, tmp_path: Path) -> None:
    name, write, side = BINARY[layout]
    write(tmp_path, *(made(10, side, 10, seed=seed, gray=side == 28) for seed in (0, 1)))
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:-100])
    with pytest.raises(UserError, match=words):
        read(CATALOG[name], tmp_path)


def test_labels_that_do_not_fit_are_told(tmp_path: Path) -> None:
    stl10(tmp_path, made(6, 96, 10, seed=0), made(3, 96, 10, seed=1))
    (tmp_path / "train_y.bin").write_bytes(bytes([1, 2, 3]))
    (tmp_path / "test_y.bin").write_bytes(bytes([1, 2, 11]))
    found = read(CATALOG["stl10"], tmp_path)
    assert found.test is not None
    with pytest.raises(UserError, match="6 images have 3 labels"):
        found.train.truth()
    with pytest.raises(UserError, match="labels run from 0 to 10, but there are 10 classes"):
        found.test.truth()


class Trap:
    """A pickle that runs a command when it is opened carelessly."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return eval, (f"__import__('pathlib').Path({str(self.marker)!r}).touch()",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_runs_nothing(protocol: int, tmp_path: Path) -> None:
    marker = tmp_path / "was-here"
    cifar10_python(tmp_path, made(10, 32, 10, seed=0), made(4, 32, 10, seed=1))
    hostile = pickle.dumps({b"data": Trap(marker), b"labels": [1]}, protocol=protocol)
    (tmp_path / "data_batch_2").write_bytes(hostile)
    with pytest.raises(UserError, match=r"data_batch_2 is not a CIFAR batch: it names .*, and only numpy arrays"):
        read(CATALOG["cifar10"], tmp_path)
    assert not marker.exists()
    pickle.loads(hostile)
    assert marker.exists()  # the trap itself works


@pytest.mark.parametrize(
    "names", [("numpy", "load"), ("numpy", "ndarray.tofile"), ("os", "system"), ("builtins", "getattr")]
)
def test_no_other_name_is_looked_up_in_a_pickle(names: tuple[str, str], tmp_path: Path) -> None:
    cifar10_python(tmp_path, made(10, 32, 10, seed=0), made(4, 32, 10, seed=1))
    text = b"".join(b"\x8c" + bytes([len(name)]) + name.encode() for name in names)
    (tmp_path / "data_batch_2").write_bytes(b"\x80\x04" + text + b"\x93.")
    with pytest.raises(UserError, match=f"it names {'.'.join(names)}"):
        read(CATALOG["cifar10"], tmp_path)


def test_pickles_written_today_are_read_too(tmp_path: Path) -> None:
    train, test = made(10, 32, 10, seed=0), made(4, 32, 10, seed=1)
    cifar10_python(tmp_path, train, test)
    again = pickle.dumps({b"data": planes(test.pixels), b"labels": test.labels.tolist()}, protocol=4)
    (tmp_path / "test_batch").write_bytes(again)
    assert same(read(CATALOG["cifar10"], tmp_path).test, test, in_order=True)


def test_arrays_of_objects_are_not_unpickled_from_npz(tmp_path: Path) -> None:
    card = CATALOG["mnist"]
    marker = tmp_path / "was-here"
    trap = np.array([Trap(marker)], dtype=object)
    buffer = io.BytesIO()
    np.savez(buffer, x_train=trap, y_train=trap, x_test=trap, y_test=trap)
    (tmp_path / "mnist.npz").write_bytes(buffer.getvalue())
    with pytest.raises(UserError, match="cannot be read as arrays"):
        read(card, tmp_path)
    assert not marker.exists()


def test_the_real_fashion_mnist_is_recognized(shared_data: Path) -> None:
    card: Card = CATALOG["fashion-mnist"]
    found = read(card, shared_data)
    assert found.counts == card.counts
    truth = found.train.truth()
    assert truth.labels[:10].tolist() == list(card.first_labels)
    assert np.bincount(truth.labels).tolist() == [6000] * 10
