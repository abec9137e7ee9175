"""The files of an archive, one by one and each only once; an archive that is odd in any way ends in one line."""

from __future__ import annotations

import hashlib
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from workloads.data.cache import DataError
from workloads.data.sources import File

MOST_UNPACKED = 8 << 30
"""The most bytes that an archive may say it holds; the published ones hold a tenth of it."""
MOST_ENTRIES = 100_000
MOST_INNER = 256 << 20
"""The most bytes of an archive inside an archive, which is held in memory."""
LONGEST_NAME, DEEPEST = 500, 20

ODD = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(struct.error, EOFError, ValueError, RuntimeError),
)
"""What the standard library raises for a broken archive; encrypted and unknown ones are a RuntimeError."""


@dataclass(frozen=True)
class Member:
    """A file of an archive."""

    name: str
    size: int
    content: IO[bytes]


class ArchiveError(Exception):
    """The archive holds what none of ours does; the message names it."""


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise DataError, in one line, for what is wrong with that archive while it is read."""
    try:
        yield
    except (*ODD, ArchiveError) as error:
        said = str(error) or type(error).__name__
        raise DataError(f"cannot unpack {path}: {said if said.isprintable() else ascii(said)}") from error


def members(file: File) -> Iterator[Member]:
    """Yield the files of the archive, or of the one archive in it, without what macOS left there.

    ArchiveError, or one of `ODD`, for an archive that is broken, too large, encrypted, or holds anything but files and
    folders with plain names inside of it; DataError if the archive in it is not the declared one.
    """
    if not zipfile.is_zipfile(file.path):
        with tarfile.open(file.path) as archive:
            yield from _of_tar(archive)
        return
    with zipfile.ZipFile(file.path) as outer:
        inner = [entry for entry in outer.infolist() if entry.filename.endswith(".zip") and not litter(entry.filename)]
        if not inner:
            yield from _of_zip(outer)
            return
        if inner[0].file_size > MOST_INNER:
            raise ArchiveError(f"{inner[0].filename!a} in it is larger than {MOST_INNER:,} bytes")
        content = outer.read(inner[0])
    if hashlib.sha256(content).hexdigest() != file.inner_sha256:
        raise DataError(f"{inner[0].filename} in {file.path} is not the file it should be: its SHA-256 is another")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        yield from _of_zip(archive)


def _of_zip(archive: zipfile.ZipFile) -> Iterator[Member]:
    inspector = _Inspector()
    for entry in archive.infolist():
        mode = entry.external_attr >> 16  # zero where the archive was not made on Unix
        folder = entry.filename.endswith("/")  # `is_dir` of Python 3.11 fails on an empty name
        plain = folder or not mode or stat.S_ISREG(mode) or not stat.S_IFMT(mode)
        name = inspector.pass_on(entry.filename, entry.file_size, plain=plain, folder=folder)
        if not folder and not litter(entry.filename):
            with archive.open(entry) as content:
                yield Member(name, entry.file_size, content)


def _of_tar(archive: tarfile.TarFile) -> Iterator[Member]:
    """Yield the files; not every Python 3.11 has a filter for what is to be refused."""
    inspector = _Inspector()
    for entry in archive:
        plain = entry.isfile() or entry.isdir()
        name = inspector.pass_on(entry.name, entry.size, plain=plain, folder=entry.isdir())
        content = archive.extractfile(entry) if entry.isfile() and not litter(entry.name) else None
        if content is not None:
            yield Member(name, entry.size, content)


class _Inspector:
    """Looks at each entry of one archive before anything of it is read."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.entries = self.bytes = 0

    def pass_on(self, name: str, size: int, *, plain: bool, folder: bool) -> str:
        """Return the path of an entry in the folder; ArchiveError for one that does not belong there."""
        shown = ascii(name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…")
        path = PurePosixPath(name)
        if not plain or path.is_absolute() or ".." in path.parts or not (folder or path.parts):
            raise ArchiveError(f"{shown} is no file or folder inside of it")
        # A control character would break the list of sums, and half a character is not in every file system.
        if not name.isprintable() or "\\" in name:
            raise ArchiveError(f"{shown} is no plain name")
        if len(name) > LONGEST_NAME or len(path.parts) > DEEPEST:
            raise ArchiveError(f"{shown} is longer than {LONGEST_NAME} characters or {DEEPEST} folders deep")
        self.entries += 1
        self.bytes += size
        if self.bytes > MOST_UNPACKED or self.entries > MOST_ENTRIES:
            raise ArchiveError(f"it holds more than {MOST_UNPACKED:,} bytes or {MOST_ENTRIES:,} files and folders")
        if not folder:
            if path.as_posix() in self.files:
                raise ArchiveError(f"{shown} is in it twice")
            self.files.add(path.as_posix())
        return path.as_posix()


def litter(name: str) -> bool:
    """Return whether macOS left it in the archive: resource forks look like images, and are none."""
    path = PurePosixPath(name)
    return "__MACOSX" in path.parts or path.name.startswith("._") or path.name == ".DS_Store"
