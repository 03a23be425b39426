"""The handwritten digits that come with scikit-learn: 1,797 images of 8 x 8 pixels, for trials of a second."""

from pathlib import Path

import numpy as np
import sklearn.datasets

from spice.benchmark.datasets.card import Card
from spice.benchmark.datasets.dataset import Dataset, Part

PLACE = Path(sklearn.datasets.__file__).parent


def read(_: Path, card: Card) -> Dataset:
    """Nothing to download, whatever the folder."""
    images, labels = sklearn.datasets.load_digits(return_X_y=True)  # (N, 64), values 0 to 16
    pixels = np.rint(images * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    return Dataset(card.name, train=Part(pixels, card.classes, lambda: labels))
